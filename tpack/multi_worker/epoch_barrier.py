"""Callbacks that keep asynchronous workers near each other: in their steps, and at the end of an epoch."""

import time
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import ClusterError
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.coordinated_stop import LONG_SECS
from tpack.multi_worker.staleness import Progress
from tpack.utils.validation import check_number

_POLL_SECS = 0.005


class EpochBarrier(Callback):
    """Wait after the last step of an epoch for workers that are behind, so that what is saved has all their steps.

    Args:
        peers: the workers.
    """

    _chief_only = False

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def _after_epoch(self) -> None:
        self._peers.barrier(f"the end of the steps of epoch {self.epoch_num}", timeout_secs=LONG_SECS)


class BoundedStaleness(Callback):
    """Wait after a step while the slowest worker is too far behind.

    Args:
        progress: how many steps each worker has made.
        max_staleness: how many steps this one may be ahead.
        rank: the number of this worker.
        timeout_secs: how long the slowest may take for a step.
    """

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
                raise ClusterError(self._complaint())
            time.sleep(_POLL_SECS)
            self._steps, said = self.trainer.sess.run(self._progress.now)
            wants_end = said != 0
            if self._steps.min() > slowest:
                slowest, since = self._steps.min(), time.monotonic()

    def _complaint(self) -> str:
        slowest = self._steps.min()
        who = [str(rank) for rank, steps in enumerate(self._steps) if steps == slowest]
        return (
            f"worker{'s' if len(who) > 1 else ''} {', '.join(who)} made no step for {self._timeout_secs:g} s after "
            f"{slowest}, and worker {self._rank}, which has made {self._steps[self._rank]}, may be "
            f"{self._max_staleness} ahead"
        )
