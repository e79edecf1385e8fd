"""Callbacks of several workers: steps, stop flag, equal values and data, bounded staleness, origin of NaN."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback, WithSteps
from tpack.dataflow.base import flows_in, length_or_none
from tpack.dataflow.shard import shards_in
from tpack.dataflow.sources import DataFromList
from tpack.errors import ClusterError, PeerLostError
from tpack.input_source.base import InputSource
from tpack.input_source.proxy import ProxyInput
from tpack.input_source.resumable import ResumableInput
from tpack.multi_worker.cluster.consistency import compare_values
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.coordinated_stop import CoordinatedStop, StopFlag
from tpack.multi_worker.staleness import Progress
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import on_device
from tpack.tower.devices import list_gpus
from tpack.tower.grads import Gradient, is_sparse
from tpack.utils import logger
from tpack.utils.progress import FIRST_STEP, JOB_REFRESH_SECS, LauncherLine
from tpack.utils.validation import check_number

_POLL_SECS = 0.005
_LAST_WAIT_SECS = 30.0
"""Timeout for the other workers' checksums after an interruption."""


class StepHeartbeat(Callback):
    """Set the current step of the control channel, and read the stop flag of a step.

    Args:
        peers: the workers.
        stop_flag: the stop flag.
        stop: gets its value.
        has_equal_steps: whether all workers are in the same step, so that steps show which one is behind.
    """

    _chief_only = False

    def __init__(
        self, peers: Peers, stop_flag: StopFlag, stop: CoordinatedStop, *, has_equal_steps: bool = True
    ) -> None:
        self._peers = peers
        self._stop_flag = stop_flag
        self._stop = stop
        self._has_equal_steps = has_equal_steps
        is_fetched = stop_flag.total is not None and not stop_flag.is_between_steps
        self._request = tf.train.SessionRunArgs(stop_flag.total) if is_fetched else None

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if ctx.original_args.fetches is not self.trainer.train_op:
            return None
        if self._has_equal_steps:
            self._peers.note_step(self.global_step + self.trainer.num_coming, is_running=True)
        return self._request

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._stop.total = float(values.results)

    def _trigger_step(self) -> None:
        if self._has_equal_steps:
            self._peers.note_step(self.global_step)

    def _with_several_steps(self) -> WithSteps:
        if self._request is None:
            return WithSteps()
        self._request = None
        store, goes_on = self._stop_flag.store()
        return WithSteps(each=(store,), goes_on=(goes_on,))

    def ended_early(self) -> None:
        """Read why a call of several steps ended early, and set the step that was reached."""
        self._peers.note_step(self.global_step)
        if not self._stop_flag.is_between_steps:
            self._stop.read_stored(self.trainer.sess)


class LauncherReport(Callback):
    """Report the first step to the launcher, and from the chief the epoch and the step, twice a second.

    Args:
        line: the pipe to the launcher.
    """

    _chief_only = False

    def __init__(self, line: LauncherLine) -> None:
        self._line = line
        self._has_made_steps = False
        self._report_at = 0.0

    def _before_epoch(self) -> None:
        self._report_at = 0.0

    def _trigger_step(self) -> None:
        if not self._has_made_steps:
            self._has_made_steps = True
            self._line.report_phase(FIRST_STEP)
        if self.trainer.is_chief and time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + JOB_REFRESH_SECS
            self._line.report_position(self.epoch_num, self.global_step)

    def _with_several_steps(self) -> WithSteps:
        return WithSteps()


class BroadcastFromChief(Callback):
    """Copy variables from the chief to all workers, so that all train, evaluate and save one model.

    Before an epoch it copies all variables, which the chief's callbacks may have changed; after its steps the untrained
    ones, such as statistics of batch normalisation, which each worker collects by itself.

    Attributes:
        of_all: copies all variables; set when all are known.
        of_untrained: copies the untrained ones.
    """

    _chief_only = False
    passes_changes_on = True
    of_all: tf.Operation
    of_untrained: tf.Operation

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self.of_all)

    def _after_epoch(self) -> None:
        self.trainer.sess.run(self.of_untrained)


class ReplicaCheck(Callback):
    """Compare what all workers have alike, after the steps of an epoch and before each save.

    It differs if a callback changes variables or a learning rate on one worker, which nothing else would show. On GPUs
    a difference is a warning, since sums of repeated rows have no fixed order; so is a change between two epochs, after
    which all take worker 0's values.

    Attributes:
        variables: the trained ones and their optimizer's; set when all are known.
    """

    _chief_only = False
    variables: Sequence[tf.Variable] = ()

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._is_between_epochs = True

    def _before_epoch(self) -> None:
        self._is_between_epochs = False

    def _after_epoch(self) -> None:
        self._compare(f"checksums after step {self.global_step}")
        self._is_between_epochs = True

    def agree_to_save(self, wanted: bool) -> bool:
        """Return whether worker 0 saves, after a comparison if it does; all workers call it.

        Raises:
            ClusterError: The workers' values differ; nothing is to be saved.
        """
        is_last = self.trainer.interrupted
        try:
            topic = f"whether worker 0 saves step {self.global_step}"
            wanted = self._peers.broadcast(topic, wanted, timeout_secs=_LAST_WAIT_SECS if is_last else LONG_WAIT_SECS)
        except ClusterError as error:
            if not is_last:
                raise
            # A worker that was not interrupted like the others does not save.
            logger.warning(f"Step {self.global_step} is saved without a comparison of the workers: {error}")
            return wanted
        if wanted:
            self.trainer.synchronize()
            self._compare(f"checksums of what is saved of step {self.global_step}")
        return wanted

    def _compare(self, what: str) -> None:
        try:
            compare_values(self._peers, self.trainer.sess, self.variables, what)
        except PeerLostError:
            raise
        except ClusterError as error:
            if self._is_between_epochs:
                logger.warning(f"Callbacks have changed one worker alone, and worker 0's values are saved: {error}")
            elif list_gpus():
                logger.warning(str(error))
            else:
                raise


class PushBeforeEpoch(Callback):
    """Write the chief's variables, which callbacks may have changed, to the shadows."""

    passes_changes_on = True

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self._op)


class EpochBarrier(Callback):
    """Wait after the last step of an epoch for slower asynchronous workers, so that checkpoints have all steps."""

    _chief_only = False

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def _after_epoch(self) -> None:
        self._peers.barrier(f"the end of the steps of epoch {self.epoch_num}", timeout_secs=LONG_WAIT_SECS)


class BoundedStaleness(Callback):
    """Wait after a step while the slowest asynchronous worker is too far behind."""

    _chief_only = False

    def __init__(self, progress: Progress, max_staleness: int, rank: int, timeout_secs: float) -> None:
        self._progress = progress
        self._max_staleness = max_staleness
        self._rank = rank
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, 0, is_low_allowed=False)
        self._request = tf.train.SessionRunArgs(progress.steps)
        self._steps: Any = None

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._request if ctx.original_args.fetches is self.trainer.train_op else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._steps = values.results

    def _trigger_step(self) -> None:
        slowest, since, wants_end = self._steps.min(), time.monotonic(), False
        while self._steps[self._rank] - slowest > self._max_staleness and not wants_end:
            if time.monotonic() - since > self._timeout_secs:
                late = [str(rank) for rank, steps in enumerate(self._steps) if steps == slowest]
                raise ClusterError(
                    f"worker{'s' if len(late) > 1 else ''} {', '.join(late)} made no step for {self._timeout_secs:g} s "
                    f"after {slowest}, and worker {self._rank}, which has made {self._steps[self._rank]}, may be "
                    f"{self._max_staleness} ahead"
                )
            time.sleep(_POLL_SECS)
            self._steps, said = self.trainer.sess.run(self._progress.now)
            wants_end = said != 0
            if self._steps.min() > slowest:
                slowest, since = self._steps.min(), time.monotonic()


class NonFiniteOrigin(Callback):
    """Record of the step since which this worker's own costs or gradients are not finite.

    The exchange carries NaN to all workers within a step. The worker whose own cost or gradients, before the exchange,
    were the first that were not finite is at fault; the control channel compares.
    Each gradient is read once more in a step, beside the exchange, which nothing waits for.

    Args:
        group: the workers.
        own_gradients: returns the gradients of this worker before the exchange; called when the graph is built.
    """

    _chief_only = False

    def __init__(self, group: WorkerGroup, own_gradients: Callable[[], Sequence[Gradient]]) -> None:
        self._group = group
        self._own_gradients = own_gradients
        self._steps: tf.Variable
        self._since: tf.Variable
        self._record: tf.Operation | None = None

    def _setup_graph(self) -> None:
        checks = [tf.is_finite(cost) for cost in self.trainer.costs or ()]
        checks += [_is_finite(each) for each in self._own_gradients() if _dtype_of(each).is_floating]
        if not checks:
            return
        with on_device(self._group.device()):
            self._steps, self._since = _counter("steps", 0), _counter("since", -1)
            step, is_bad = self._steps.assign_add(1), tf.logical_not(tf.reduce_all(tf.stack(checks)))
            since = self._since.read_value()
            # Steps that are skipped, as those of a scaled cost, are forgotten.
            now = tf.where(is_bad, tf.where(since < 0, step, since), tf.constant(-1, tf.int64))
            self._record = self._since.assign(now, read_value=False)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        return self._record if ctx.original_args.fetches is self.trainer.train_op else None

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._record is None else WithSteps(each=(self._record,))

    def first_step(self) -> int:
        """Return the first of the steps since which they are not finite; -1 if they were finite in the last one."""
        if self._record is None:
            return -1
        steps, since = self.trainer.sess.run([self._steps, self._since])
        return -1 if since < 0 else int(self.global_step - (steps - since))


def _is_finite(gradient: Gradient) -> tf.Tensor:
    """Return whether a gradient is finite: its sum of squares is, which is read in one pass, without a copy."""
    values = gradient.values if is_sparse(gradient) else gradient
    with on_device(values.device):
        wide = tf.cast(values, tf.float32) if values.dtype.base_dtype == tf.float16 else values
        return tf.is_finite(tf.nn.l2_loss(wide))


def _dtype_of(gradient: Gradient) -> tf.DType:
    return (gradient.values if is_sparse(gradient) else gradient).dtype.base_dtype


def _counter(name: str, first: int) -> tf.Variable:
    return tf.get_variable(
        f"not_finite/{name}",
        [],
        tf.int64,
        tf.constant_initializer(first),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )


_SOME_POINTS = 1000
"""The most points of a list that are compared."""
_REPEATED = (
    "All make the same steps, so shorter data are repeated more often. Use ShardData over the same data in all for "
    "equal shares, or UnevenData so that a worker without data does not count."
)


def facts_of_shards(source: InputSource) -> dict[str, Any]:
    """Return the lengths of the flows below each `ShardData` of a source, and checksums of their lists of names."""
    facts: dict[str, Any] = {}
    for number, shard in enumerate(shards_in(source.dataflow) if source.dataflow is not None else ()):
        what = f"the data below ShardData {number + 1}"
        facts[f"{what}: points"] = length_or_none(shard.ds)
        for each in flows_in(shard.ds):
            if isinstance(each, DataFromList) and (checksum := _checksum(each)) is not None:
                facts[f"{what}: checksum of a list"] = checksum
    return facts


def _checksum(flow: DataFromList) -> int | None:
    """Return the checksum of some points of a list in its own order; None if they are not names or numbers."""
    count = len(flow)
    try:
        points = [flow.lst[place] for place in range(0, count, max(1, count // _SOME_POINTS))]
        return crc32(json.dumps(points).encode())
    except (TypeError, ValueError):
        return None


def report_lengths(source: InputSource, peers: Peers) -> bool:
    """Warn, in the chief, of data of the workers' own that are of different lengths; return whether they are."""
    flow = source.dataflow
    try:
        size = None if flow is not None and shards_in(flow) else source.size()
    except NotImplementedError:
        size = None
    sizes = peers.gather("the size of their data", size)
    known = [each for each in sizes if each is not None]
    # Shares that differ by one are those of data whose length is no multiple of the number of workers.
    is_uneven = bool(known) and max(known) > min(known) + 1
    if is_uneven and peers.rank == 0:
        logger.warning(f"The workers' data have different numbers of batches: {_of_each(sizes)}. {_REPEATED}")
    return is_uneven


class PassCheck(Callback):
    """Compare the passes that the workers have made over their data, after the steps of an epoch.

    Below a `ShardData` another number of points is an error, unless the flow is read in other processes, or the run was
    resumed within a pass. Elsewhere the chief warns once of data that end after other numbers of batches.

    Args:
        source: the data of this worker.
        peers: the workers.
        has_warned: whether their lengths are known to differ.
    """

    _chief_only = False

    def __init__(self, source: InputSource, peers: Peers, *, has_warned: bool) -> None:
        while isinstance(source, ProxyInput):
            source = source.input
        self._source = source
        self._shards = [] if source.dataflow is None else shards_in(source.dataflow)
        self._peers = peers
        self._has_warned = has_warned

    def _after_epoch(self) -> None:
        size = self._source.size_of_pass if isinstance(self._source, ResumableInput) else None
        own = [size, [shard.passes_made() for shard in self._shards]]
        told = self._peers.gather("the passes over their data", own, timeout_secs=LONG_WAIT_SECS)
        sizes, of_shards = zip(*told, strict=True)
        for passes in zip(*of_shards, strict=True):
            if (difference := first_other_pass(passes)) is not None:
                raise ClusterError(
                    f"the workers' data below ShardData differ, found after step {self.global_step}: {difference}; "
                    "expected the same data points in all workers, so that all read the same number"
                )
        known = [each for each in sizes if each is not None]
        if self._peers.rank == 0 and not self._has_warned and known and max(known) > min(known) + 1:
            self._has_warned = True
            logger.warning(f"The workers' data end after different numbers of batches: {_of_each(sizes)}. {_REPEATED}")


def first_other_pass(passes: Sequence[tuple[Sequence[Sequence[int]], int] | None]) -> str | None:
    """Return the first pass that has another number of data points in a worker, with the numbers; None if none has.

    Args:
        passes: of each worker, as `ShardData.passes_made` returns them.
    """
    if any(each is None for each in passes):
        return None
    runs = [[list(run) for run in each[0]] for each in passes if each is not None]
    taken = [each[1] for each in passes if each is not None]
    number = 1
    while all(runs):
        sizes = [own[0][0] for own in runs]
        if len(set(sizes)) > 1:
            return f"pass {number} has {_of_each(sizes)} as its share"
        count = min(own[0][1] for own in runs)
        number += count
        for own in runs:
            own[0][1] -= count
            if not own[0][1]:
                own.pop(0)
    # Some are still in this pass, which others have finished: they may have taken at most as much.
    least = min((own[0][0] for own in runs if own), default=None)
    if least is None or all(own or count <= least for own, count in zip(runs, taken, strict=True)):
        return None
    found = [f"{own[0][0]}" if own else f"{count} or more" for own, count in zip(runs, taken, strict=True)]
    return f"pass {number} has {_of_each(found)} as its share"


def _of_each(values: Sequence[Any]) -> str:
    return ", ".join(f"{'?' if value is None else value} in worker {rank}" for rank, value in enumerate(values))
