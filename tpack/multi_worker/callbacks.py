"""Callbacks by which the workers of a training keep step, and have the same values."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.cluster.consistency import check_consistency
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.coordinated_stop import CoordinatedStop
from tpack.multi_worker.stop_flag import StopFlag
from tpack.tower.devices import list_gpus
from tpack.types import Session
from tpack.utils import logger


class StepHeartbeat(Callback):
    """Tell the other workers which step this one begins, without waiting for them, and hear if one wants to end.

    Args:
        peers: the workers.
        end_signal: what is heard.
        ending: hears it.
        says_steps: whether all workers are in the same step, so that a step says who is behind.
    """

    _chief_only = False

    def __init__(self, peers: Peers, end_signal: StopFlag, ending: CoordinatedStop, *, says_steps: bool = True) -> None:
        self._peers = peers
        self._end_signal = end_signal
        self._ending = ending
        self._says_steps = says_steps
        self._request = None if end_signal.told is None else tf.train.SessionRunArgs(end_signal.told)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if ctx.original_args.fetches is not self.trainer.train_op:
            return None
        if self._says_steps:
            self._peers.note_step(self.global_step + self.trainer.num_coming)
        return self._request

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if values.results is not None:
            self._ending.told = float(values.results)

    def _with_several_steps(self) -> WithSteps:
        if self._request is None:
            return WithSteps()
        self._request = None
        keep, goes_on = self._end_signal.keep()
        return WithSteps(each=(keep,), goes_on=(goes_on,))

    def ended_early(self) -> None:
        """Hear why a run of several steps is over, and say how far this worker came."""
        self._peers.note_step(self.global_step)
        self._ending.hear_kept(self.trainer.sess)


class BroadcastFromChief(Callback):
    """Give all workers the chief's variables, so that what they train, evaluate and save is one model.

    Before an epoch these are all variables, which the chief's callbacks may have changed. When its steps are made they
    are those that are not trained, such as the statistics of batch normalisation, which each worker gathers for itself:
    what is evaluated in all workers is then the model of the chief, which is what is saved.

    Attributes:
        of_all: makes the copies of all variables; known when there are all.
        of_untrained: makes those of variables that are not trained.
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
    """Compare the trained variables of all workers when the steps of an epoch are made, before anything is saved.

    They are equal to the last bit, unless workers have applied the same gradients in different ways, as where a
    callback changes variables or a learning rate on one of them: nothing else would ever show it. On GPUs rows that
    come twice are added in no fixed order, so there a difference is no more than a warning.

    Args:
        peers: the workers.

    Attributes:
        variables: which; known when all are.
    """

    _chief_only = False
    variables: Sequence[tf.Variable] = ()

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._has_warned = False

    def _after_epoch(self) -> None:
        what = f"checksums after step {self.global_step}"
        try:
            compare_values(self._peers, self.trainer.sess, self.variables, what)
        except PeerLostError:
            raise
        except ClusterError as error:
            if not list_gpus():
                raise
            if not self._has_warned:
                logger.warning(str(error))
            self._has_warned = True


def compare_values(peers: Peers, session: Session, variables: Sequence[tf.Variable], what: str) -> None:
    """Raise an error in all workers if variables do not have the same values in all of them.

    Args:
        peers: the workers.
        session: this worker's.
        variables: which, the same in all.
        what: what is compared, for the message.

    Raises:
        ClusterError: They differ; the message names the variables.
    """
    values = session.run(list(variables))
    sums = {v.op.name: crc32(np.ascontiguousarray(value).tobytes()) for v, value in zip(variables, values, strict=True)}
    check_consistency(peers, {what: sums})


class PushBeforeEpoch(Callback):
    """Give the shadows what callbacks changed in the chief's variables.

    Args:
        op: does it.
    """

    passes_changes_on = True

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def _before_epoch(self) -> None:
        self.trainer.sess.run(self._op)
