"""Averages of what steps compute: running the operations of moving averages, and means over a window of steps."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.group import numbered
from tpack.errors import CallbackError
from tpack.tfutils.summary import (
    MOVING_AVERAGES_KEY,
    MOVING_SUMMARY_OPS_KEY,
    MovingAverages,
    add_named_moving_summary,
    scalar_tags,
)
from tpack.tfutils.variable_values import assign_values
from tpack.tower.names import op_and_tensor_name
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class MovingAverageSummary(Callback):
    """Run the operations of a collection together with every step.

    What trainers know of each step, such as the mean of the towers' costs, gets a moving average here, unless the model
    has a summary of that name, or of the cost under another name, itself.

    What moving averages have gathered goes into checkpoints, so that those of a run that resumes go on.

    Args:
        collection: the collection that holds them.
        train_op: an operation, or its name: they become part of it, and run whenever it does. Unless given they run
            with each `trainer.hooked_sess.run`, which in a trainer that runs several train ops a step is several
            times.

    Raises:
        CallbackError: ``train_op`` is not in the graph.
    """

    _chief_only = False
    # Those who write summaries look for them when they are set up.
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
            self._add_statistics()
        ops = [item if isinstance(item, tf.Operation) else item.op for item in tf.get_collection(self._collection)]
        if not ops:
            return
        self._averages = [averages for averages in tf.get_collection(MOVING_AVERAGES_KEY) if averages.update in ops]
        if self._train_op is None:
            self._fetch = tf.group(*ops, name="maintain_moving_average_summary")
            carrier = "with every step"
        else:
            train_op = self._find_train_op()
            train_op._add_control_inputs(ops)
            carrier = f"with operation {train_op.name}"
        logger.info(f"{len(ops)} operation(s) of collection {self._collection} run {carrier}.")

    def _add_statistics(self) -> None:
        """Make averages of the trainer's statistics, as far as there are no summaries of them yet."""
        known, scalars = scalar_tags(), self.trainer.statistics
        new = {name: scalar for name, scalar in scalars.items() if name not in known}
        add_named_moving_summary(list(new.items()))

    def _find_train_op(self) -> tf.Operation:
        given = self._train_op
        if isinstance(given, str):
            known = {op.name: op for op in self.graph.get_operations()}
            op = known.get(op_and_tensor_name(given)[0])
        else:
            op = getattr(given, "op", given)
        if not isinstance(op, tf.Operation) or op.graph is not self.graph:
            raise CallbackError(f"{self} wants a train_op of the graph, got {given!r}")
        return op

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Operation | None:
        return self._fetch

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._fetch is None else WithSteps(each=(self._fetch,))

    def _state_to_save(self) -> dict[str, list[float]] | None:
        """Return of each average, by its name, what the variable holds of it."""
        states = self.trainer.sess.run([averages.state for averages in self._averages])
        columns = [column for state in states for column in state.T.tolist()]
        return dict(zip(self._names(), columns, strict=True)) or None

    def _load_saved_state(self, state: dict[str, list[float]]) -> None:
        names = self._names()
        values = [[state.get(next(names), [0.0] * 3) for _ in averages.tags] for averages in self._averages]
        pairs = [
            (averages.state, np.array(columns, np.float32).T)
            for averages, columns in zip(self._averages, values, strict=True)
        ]
        assign_values(self.trainer.sess, pairs)

    def _names(self) -> Iterator[str]:
        return numbered(tag for averages in self._averages for tag in averages.tags)

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; with a train op nothing is left to do around a step."""
        if hook == "before_run":
            return self._train_op is None
        return super().implements(hook)


@check_arguments
class SimpleMovingAverage(Callback):
    """Fetch scalars together with every step and report, when triggered, their means over the last steps.

    Use it in place of `add_moving_summary` where old values are to be forgotten altogether. The statistics are called
    ``<name>/SMA``.

    Args:
        tensors: names of scalar tensors, in the graph or in the first training tower.
        window_size: how many steps.

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
                raise CallbackError(f"{self} wants scalars, got {tensor.name} of shape {tensor.shape}")
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
