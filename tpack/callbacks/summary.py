"""Evaluate the summaries of the graph and give them to the monitors."""

from __future__ import annotations

import sys

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.tfutils.summary import STATE_SUMMARIES_KEY
from tpack.types import Counters
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments, check_count

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
