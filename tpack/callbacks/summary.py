"""Evaluate the summaries of the graph and give them to the monitors."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError


def MergeAllSummaries(  # noqa: N802 (scripts use it like a class)
    period: int = 0, run_alone: bool = False, key: str | None = None
) -> Callback:
    """Make a callback that evaluates all summaries of a collection.

    Args:
        period: evaluate every so many steps of an epoch, and in any case at the end of each epoch; 0 for only then.
        run_alone: evaluate them in a run of their own rather than with a training step. Such a run takes another
            batch of data where the summaries depend on it, and fails where data are fed.
        key: the collection; `tf.GraphKeys.SUMMARIES` unless given.

    Raises:
        ConfigError: ``period`` is negative.
    """
    if period < 0:
        raise ConfigError(f"MergeAllSummaries wants a period of at least 0 steps, got {period}")
    kind = _SummariesAlone if run_alone else _SummariesWithStep
    return kind(period, key or tf.GraphKeys.SUMMARIES)


class _SummariesWithStep(Callback):
    """Fetch the merged summaries together with a training step."""

    def __init__(self, period: int, key: str) -> None:
        self._period = period
        self._key = key
        self._fetch: tf.Tensor | None = None
        self._pending: bytes | None = None

    def _setup_graph(self) -> None:
        self._fetch = tf.summary.merge_all(self._key)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Tensor | None:
        coming = self.local_step + 1
        if coming == self.trainer.steps_per_epoch or (self._period and coming % self._period == 0):
            return self._fetch
        return None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._pending = values.results

    def _trigger_step(self) -> None:
        # The step is counted by now, so that the summary carries the number of the step that made it.
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.trainer.monitors.put_summary(pending)

    def __str__(self) -> str:
        return "MergeAllSummaries"


class _SummariesAlone(Callback):
    """Evaluate the merged summaries in a run of their own."""

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

    def _trigger(self) -> None:
        if self._fetch is not None:
            self.trainer.monitors.put_summary(self.trainer.sess.run(self._fetch))

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; without a period nothing is to be done after a step."""
        if hook == "trigger_step":
            return self._period > 0
        return super().implements(hook)

    def __str__(self) -> str:
        return "MergeAllSummaries"
