"""Callbacks of several workers: steps, stop flag, equal values, bounded staleness."""

import time
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback, WithSteps
from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.cluster.consistency import compare_values
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.coordinated_stop import CoordinatedStop, StopFlag
from tpack.multi_worker.staleness import Progress
from tpack.tower.devices import list_gpus
from tpack.utils import logger
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
        self._request = None if stop_flag.total is None else tf.train.SessionRunArgs(stop_flag.total)

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
        self._stop.read_stored(self.trainer.sess)


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
