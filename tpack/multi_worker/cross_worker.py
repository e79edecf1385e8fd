"""Statistics of several workers as one: merged by a rule for each name; and the worker that slows down the others.

Each worker reports statistics of its own share. Before a merged statistic is read or written, the workers exchange
theirs, and the monitors of all get the merged value: callbacks decide the same by it in all workers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback, WithSteps
from tpack.callbacks.summary import MergeAllSummaries
from tpack.errors import ConfigError
from tpack.input_source.dequeue import GraphSum, now
from tpack.types import Peers
from tpack.utils import logger
from tpack.utils.logger import log_once
from tpack.utils.validation import check_arguments, check_choice, check_number

_RULES: dict[str, Callable[[Sequence[float]], np.generic]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}
_SCALARS_KEY = "SCALARS_OF_WORKERS"


@check_arguments
class MergeScalars(Callback):
    """Merge statistics of all workers: sum, mean, largest or least.

    When triggered, after all callbacks that report and before those that read, the last value of each worker is merged,
    and monitors and callbacks of all workers get the result under the same name. Workers without a value, such as one
    of a callback for the chief only, do not count, and the log names them once. NaN makes the result NaN.

    Only the chief evaluates a graph's summaries, with `MergeAllSummaries`; the other workers evaluate the scalars among
    them in the last step of an epoch. With one worker it does nothing.

    Args:
        how: {name of a statistic: ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``}.

    Raises:
        ConfigError: No name, or another rule.

    Example:
        ``MergeScalars({"cost": "mean", "Throughput (samples/sec)": "sum", "PeakMemory(MB)//cpu:0": "max"})``
    """

    _chief_only = False
    merges_statistics = True

    def __init__(self, how: Mapping[str, str]) -> None:
        if not how:
            raise ConfigError("MergeScalars got how={}: expected at least one name of a statistic with a rule")
        self._how = {name: check_choice(self, f"how[{name!r}]", rule, tuple(_RULES)) for name, rule in how.items()}
        self._peers: Peers | None = None
        self._summaries: Callback | None = None

    def _setup_graph(self) -> None:
        peers = self.trainer.peers
        if peers is None or peers.size == 1:
            return
        self._peers = peers
        self.trainer.monitors.hold_back(self._how)
        if peers.rank > 0:
            scalars = [each for each in tf.get_collection(tf.GraphKeys.SUMMARIES) if each.op.type == "ScalarSummary"]
            for summary in dict.fromkeys(scalars):
                tf.add_to_collection(_SCALARS_KEY, summary)
            self._summaries = MergeAllSummaries(key=_SCALARS_KEY)
            self._summaries.setup_graph(self.trainer)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        return None if self._summaries is None else self._summaries.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if self._summaries is not None:
            self._summaries.after_run(ctx, values)

    def _trigger_step(self) -> None:
        if self._summaries is not None:
            self._summaries.trigger_step()

    def _with_several_steps(self) -> WithSteps | None:
        return WithSteps() if self._summaries is None else self._summaries.with_several_steps()

    def _trigger_epoch(self) -> None:
        if self._summaries is not None:
            self._summaries.trigger_epoch()
        self.trigger()

    def _trigger(self) -> None:
        if self._peers is None:
            return
        held = self.trainer.monitors.take_held()
        told = self._peers.gather(f"statistics for {self}", held, timeout_secs=LONG_WAIT_SECS)
        for name, rule in self._how.items():
            values = [each[name] for each in told if name in each]
            if not values:
                continue
            lacking = [str(rank) for rank, each in enumerate(told) if name not in each]
            if lacking and self._peers.rank == 0:
                log_once(f"'{name}' is merged without worker {', '.join(lacking)}: it is not reported there.")
            self.trainer.monitors.put_merged(name, _RULES[rule](values).item())

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; around a step, only with summaries to evaluate."""
        if hook in ("before_run", "after_run"):
            return self._summaries is not None
        return super().implements(hook)


@check_arguments
class SlowestWorker(Callback):
    """Report the time of a step in each worker, and name the slowest.

    Workers that exchange gradients wait for each other, so a whole step takes equally long in all. So this measures a
    step up to its costs: waiting for data and the forward pass. After each epoch it reports the slowest and the median
    of the workers' means, ``step_secs/slowest`` and ``step_secs/median``, and ``step_secs/slowest_rank``. With one
    worker it does nothing.

    Args:
        log_from: the log names the slowest worker from this multiple of the median.

    Raises:
        ConfigError: ``log_from`` is less than 1.
    """

    _chief_only = False

    def __init__(self, log_from: float = 1.2) -> None:
        self._log_from = check_number(self, "log_from", log_from, 1)
        self._peers: Peers | None = None
        self._secs: GraphSum | None = None
        self._timing: tf.Operation | None = None
        self._secs_before = 0.0
        self._steps_before = 0

    def _setup_graph(self) -> None:
        peers, costs = self.trainer.peers, self.trainer.costs
        if peers is None or peers.size == 1:
            return
        if not costs:
            logger.warning(f"{self} measures nothing: {type(self.trainer).__name__} has no costs.")
            return
        self._peers = peers
        self._secs = GraphSum(tf.float64, "secs_to_cost")
        begin = now()
        with tf.control_dependencies([cost.op for cost in costs]):
            end = now()
        self._timing = self._secs.add(end - begin)

    def _before_train(self) -> None:
        if self._secs is not None:
            self._secs.connect(self.trainer.sess)

    def _before_epoch(self) -> None:
        if self._secs is not None:
            self._secs_before, self._steps_before = self._secs.value(), self.global_step

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        return self._timing

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._timing is None else WithSteps(each=(self._timing,))

    def _trigger(self) -> None:
        if self._peers is None or self._secs is None:
            return
        num_steps = self.global_step - self._steps_before
        secs = (self._secs.value() - self._secs_before) / num_steps if num_steps else 0.0
        self._report(self._peers.gather(f"how long a step takes for {self}", secs, timeout_secs=LONG_WAIT_SECS))

    def _report(self, secs: list[float]) -> None:
        slowest, median = max(secs), statistics.median(secs)
        rank = secs.index(slowest)
        for name, value in (("slowest", slowest), ("median", median), ("slowest_rank", rank)):
            self.trainer.monitors.put_scalar(f"step_secs/{name}", value)
        if 0 < median * self._log_from <= slowest and self.trainer.is_chief:
            logger.info(
                f"Worker {rank} is slowest: {slowest / median:.2g} of the median, {slowest:.3g} s a step until it "
                "knows its cost."
            )

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; with one worker nothing is measured."""
        if hook == "before_run":
            return self._timing is not None
        return super().implements(hook)
