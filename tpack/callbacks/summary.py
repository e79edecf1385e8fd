"""Summaries of the graph for the monitors, and averages of values that steps compute.

Averages are moving averages in the graph, and means over a window of steps.
"""

from __future__ import annotations

import statistics
import sys
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.group import numbered
from tpack.compat.operations import run_after
from tpack.errors import CallbackError
from tpack.tfutils.summary import (
    MOVING_AVERAGES_KEY,
    MOVING_SUMMARY_OPS_KEY,
    STATE_SUMMARIES_KEY,
    MovingAverages,
    add_named_moving_summary,
    scalar_tags,
)
from tpack.tfutils.variable_values import assign_values
from tpack.tower.collections import EPOCH_MEANS_KEY
from tpack.tower.names import op_and_tensor_name
from tpack.types import Counters
from tpack.utils import logger
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments, check_count, mismatch

__getattr__ = on_unknown_name(__name__)


@check_arguments
def MergeAllSummaries(  # noqa: N802 (scripts use it like a class)
    period: int = 0, run_alone: bool = False, key: str | None = None
) -> Callback:
    """Make a callback that evaluates all summaries of a collection.

    Summaries of moving averages and parameters, which steps change, are evaluated after the step.

    Args:
        period: evaluate every this many steps of an epoch, and always at its end; 0 for only then.
        run_alone: evaluate in a separate run, not with a training step. Such a run takes another batch of data if the
            summaries depend on data, and fails if data are fed.
        key: the collection; `tf.GraphKeys.SUMMARIES` unless given.

    Raises:
        ConfigError: ``period`` is negative.
    """
    check_count("MergeAllSummaries", "period", period, 0)
    kind = _SummariesAlone if run_alone else _SummariesWithStep
    return kind(period, key or tf.GraphKeys.SUMMARIES)


class _SummariesWithStep(Callback):
    """The merged summaries fetched with a training step; those of values that steps change are fetched after it."""

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._fetch: tf.Tensor | None = None
        self._state_fetch: tf.Tensor | None = None
        self._is_due = False
        self._pending: bytes | None = None
        self._last_step = -1
        self._loop: Counters

    def _setup_graph(self) -> None:
        self._loop = self.trainer.loop
        after_step = set(map(id, tf.get_collection(STATE_SUMMARIES_KEY)))
        summaries = tf.get_collection(self._key)
        self._fetch = _merge([summary for summary in summaries if id(summary) not in after_step])
        self._state_fetch = _merge([summary for summary in summaries if id(summary) in after_step])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Tensor | None:
        # On the hot path of each step.
        loop, period = self._loop, self._period
        coming = loop.local_step + loop.num_coming
        if coming != loop.steps_per_epoch and (not period or coming % period):
            return None
        self._is_due = True
        return self._fetch

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._pending = values.results

    def _with_several_steps(self) -> WithSteps:
        wanted = () if self._fetch is None else (self._fetch,)
        return WithSteps(last=wanted, steps_left=lambda: _steps_left(self.local_step, self._period))

    def _trigger_step(self) -> None:
        # After counting, so that the summary carries the number of its own step.
        if self._is_due:
            pending, self._pending, self._is_due = self._pending, None, False
            if pending is not None:
                self.trainer.monitors.put_summary(pending)
            self._put_state()

    def _trigger_epoch(self) -> None:
        # A run that resumes at the end of an epoch has made no step.
        if self._last_step != self.global_step:
            self._put_state()

    def _put_state(self) -> None:
        self._last_step = self.global_step
        if self._state_fetch is not None:
            self.trainer.monitors.put_summary(self.trainer.sess.run(self._state_fetch))

    def __str__(self) -> str:
        return "MergeAllSummaries"


class _SummariesAlone(Callback):
    """The merged summaries in a separate run."""

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._fetch: tf.Tensor | None = None

    def _setup_graph(self) -> None:
        self._fetch = tf.summary.merge_all(self._key)

    def _trigger_step(self) -> None:
        # The last step of an epoch is the trigger's.
        is_last = self.local_step == self.trainer.steps_per_epoch
        if self._period and not is_last and self.local_step % self._period == 0:
            self.trigger()

    def _with_several_steps(self) -> WithSteps:
        return WithSteps(steps_left=lambda: _steps_left(self.local_step, self._period))

    def _trigger(self) -> None:
        if self._fetch is not None:
            self.trainer.monitors.put_summary(self.trainer.sess.run(self._fetch))

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; without a period a step costs nothing."""
        return self._period > 0 if hook == "trigger_step" else super().implements(hook)

    def __str__(self) -> str:
        return "MergeAllSummaries"


def _steps_left(step: int, period: int) -> int:
    return period - step % period if period else sys.maxsize


def _merge(summaries: list[tf.Tensor]) -> tf.Tensor | None:
    return tf.summary.merge(summaries) if summaries else None


@check_arguments
class MovingAverageSummary(Callback):
    """Run the moving-average operations of a collection with every step.

    The trainer's statistics, such as the mean cost of the towers, get moving averages here, unless the model has a
    summary of that name, or of the cost under another name. The averages go into checkpoints and continue in resumed
    runs.

    Args:
        collection: the collection that holds the operations.
        train_op: an operation, or its name, that the averages become a part of. By default they run with each
            `trainer.hooked_sess.run`, several times in a step if the trainer runs several train ops.

    Raises:
        CallbackError: ``train_op`` is not in the graph.
    """

    _chief_only = False
    # Callbacks that write summaries collect them when they are set up.
    adds_variables = True

    def __init__(
        self, collection: str = MOVING_SUMMARY_OPS_KEY, train_op: tf.Operation | tf.Tensor | str | None = None
    ) -> None:
        self._collection = collection
        self._train_op = train_op
        self._fetch: tf.Operation | None = None
        self._averages: list[MovingAverages] = []

    def _setup_graph(self) -> None:
        if self._collection == MOVING_SUMMARY_OPS_KEY:
            # The trainer's statistics, except those with a summary already.
            known = scalar_tags() | set(tf.get_collection(EPOCH_MEANS_KEY))
            add_named_moving_summary([item for item in self.trainer.statistics.items() if item[0] not in known])
        ops = [item if isinstance(item, tf.Operation) else item.op for item in tf.get_collection(self._collection)]
        if not ops:
            return
        self._averages = [averages for averages in tf.get_collection(MOVING_AVERAGES_KEY) if averages.update in ops]
        if self._train_op is None:
            self._fetch = tf.group(*ops, name="maintain_moving_average_summary")
            carrier = "with every step"
        else:
            train_op = self._find_train_op()
            run_after(train_op, ops)
            carrier = f"with operation {train_op.name}"
        logger.info(f"{len(ops)} operation(s) of collection {self._collection} run {carrier}.")

    def _find_train_op(self) -> tf.Operation:
        given = self._train_op
        if isinstance(given, str):
            op = {op.name: op for op in self.graph.get_operations()}.get(op_and_tensor_name(given)[0])
        else:
            op = getattr(given, "op", given)
        if not isinstance(op, tf.Operation) or op.graph is not self.graph:
            raise CallbackError(mismatch(self, "train_op", given, "an operation of the graph"))
        return op

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Operation | None:
        return self._fetch

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._fetch is None else WithSteps(each=(self._fetch,))

    def _state_to_save(self) -> dict[str, list[float]] | None:
        states = self.trainer.sess.run([averages.state for averages in self._averages])
        columns = [column for state in states for column in state.T.tolist()]
        return dict(zip(self._names(), columns, strict=True)) or None

    def _load_saved_state(self, state: dict[str, list[float]]) -> None:
        names, pairs = self._names(), []
        for averages in self._averages:
            columns = [state.get(next(names), [0.0] * 3) for _ in averages.tags]
            pairs.append((averages.state, np.array(columns, np.float32).T))
        assign_values(self.trainer.sess, pairs)

    def _names(self) -> Iterator[str]:
        return numbered(tag for averages in self._averages for tag in averages.tags)

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; with a train op nothing runs around a step."""
        return self._train_op is None if hook == "before_run" else super().implements(hook)


@check_arguments
class SimpleMovingAverage(Callback):
    """Fetch scalars with every step and report, when triggered, their means over the last steps as ``<name>/SMA``.

    Args:
        tensors: names of scalar tensors, in the graph or in the first training tower.
        window_size: the number of steps; unlike `add_moving_summary` it forgets older values altogether.

    Raises:
        ConfigError: ``window_size`` is below 1.
    """

    def __init__(self, tensors: str | Sequence[str], window_size: int) -> None:
        check_count(self, "window_size", window_size)
        self._names = [tensors] if isinstance(tensors, str) else list(tensors)
        self._windows: list[deque[float]] = [deque(maxlen=window_size) for _ in self._names]
        self._fetches: tf.train.SessionRunArgs | None = None

    def _setup_graph(self) -> None:
        tensors = self.get_tensors_maybe_in_tower(self._names)
        for tensor in tensors:
            if tensor.shape.rank != 0:
                raise CallbackError(f"{self} got {tensor.name} of shape {tensor.shape}: expected a scalar")
        self._fetches = tf.train.SessionRunArgs(tuple(tensors))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._fetches

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            for window, value in zip(self._windows, values.results, strict=True):
                window.append(float(value))

    def _state_to_save(self) -> list[list[float]]:
        return [list(window) for window in self._windows]

    def _load_saved_state(self, state: list[list[float]]) -> None:
        for window, values in zip(self._windows, state, strict=True):
            window.extend(values)

    def _trigger(self) -> None:
        for name, window in zip(self._names, self._windows, strict=True):
            if window:
                self.trainer.monitors.put_scalar(f"{name}/SMA", statistics.fmean(window))

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._names)})"
