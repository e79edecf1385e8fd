"""Coordinated end of training: all workers stop after the same step, or before the same epoch.

A worker that stopped by itself would leave the others waiting, in a step or between two epochs. So a worker that is to
stop, by a signal or a callback, sets a flag and continues: the flag travels with the next gradients that are exchanged,
those of the next step or of several, after which all stop; when an epoch is over, an exchange before the next one
carries it.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS
from tpack.errors import Interrupted, StopTraining
from tpack.tower.grads import ReduceOp
from tpack.types import Peers, Session


class StopFlag:
    """Sum of the workers' stop flags in a step, or in an operation between two steps that exchanges for several.

    Where several steps are one session call, the call ends with the step that has the flag: the graph looks at it.

    Attributes:
        total: the sum, a scalar; None before the graph is built.
        is_between_steps: whether the flag travels between steps only, so that a step must not fetch the sum.
    """

    STOP, SIGNAL = 1, 4096

    def __init__(self) -> None:
        self.total: tf.Tensor | None = None
        self.is_between_steps = False

    def build(self) -> tf.Tensor:
        """Return this worker's flag, a local variable in the current graph."""
        flag = _local("stop_flag", tf.zeros_initializer(), tf.float32)
        self._set = {value: flag.assign(value, read_value=False) for value in (self.STOP, self.SIGNAL)}
        return flag.read_value()

    def arrived(self, reduced: tf.Tensor, op: ReduceOp, num_workers: int) -> None:
        """Set `total` by the sum or mean of the flags of all workers: a mean of W, times W, need not be whole."""
        self.total = tf.round(reduced * num_workers if op is ReduceOp.MEAN else reduced)

    def set(self, session: tf.Session, value: int) -> None:
        """Set the flag for the next step: `STOP`, or `SIGNAL` for a cause outside of the program.

        From another thread, while a call makes several steps, the next one of them sends it.
        """
        session.run(self._set[value])

    def store(self) -> tuple[tf.Operation, tf.Variable]:
        """Return an operation that stores the sum of each step, and a variable: whether it was zero.

        Creates:
            Two local variables.
        """
        self._stored = _local("stop_flag_stored", tf.zeros_initializer(), tf.float32)
        goes_on = _local("stop_flag_goes_on", tf.ones_initializer(), tf.bool)
        is_zero = tf.equal(self.total, 0.0)
        stored = [self._stored.assign(self.total, read_value=False), goes_on.assign(is_zero, read_value=False)]
        return tf.group(*stored, name="store_stop_flag"), goes_on

    def stored(self, session: tf.Session) -> float:
        """Return the sum of the last step; after `store`."""
        return float(session.run(self._stored))


class CoordinatedStop:
    """State of the coordinated end in one worker.

    Attributes:
        total: the sum of the stop flags of the last exchange; 0 for none.
    """

    def __init__(self, peers: Peers, flag: StopFlag) -> None:
        self._peers = peers
        self._flag = flag
        self._request: BaseException | None = None
        self.total = 0.0

    def after_step(self, session: Session, request: BaseException | None) -> None:
        """Stop if a flag was set in the last step; otherwise set this worker's for the next one, on request.

        Raises:
            StopTraining: A callback stops training, in any worker.
            Interrupted: A signal does, in any worker.
        """
        if self.total:
            raise self._request or request or _request_of_others(self.total)
        if request is not None and self._request is None:
            self._request = request
            if self._flag.total is not None:
                self._flag.set(session, StopFlag.SIGNAL if _is_continued(request) else StopFlag.STOP)

    def request_at_once(self, session: Session) -> None:
        """Set the flag for the next step after a signal; from another thread, while a call makes several."""
        try:
            self._flag.set(session, StopFlag.SIGNAL)
        except (RuntimeError, tf.errors.OpError):
            # The session is closed: training is over.
            return

    def read_stored(self, session: Session) -> None:
        """Read the flag of the last step of a call that ended early."""
        self.total = self._flag.stored(session)

    def before_epoch(self, epoch_num: int) -> None:
        """Continue with an epoch if all workers do.

        Raises:
            StopTraining: A callback stops training, in any worker.
            Interrupted: A signal does, in any worker.
        """
        self._exchange(epoch_num, self._request)
        if self._request is not None:
            raise self._request

    def end_after_epoch(self, next_epoch: int, request: BaseException) -> None:
        """Report to workers that wait before the next epoch why this one stops, unless the reason is theirs too."""
        if request is not self._request and not getattr(request, "is_of_all", False):
            self._exchange(next_epoch, request)

    def _exchange(self, epoch_num: int, request: BaseException | None) -> None:
        """Wait for all before an epoch, and stop with those that do."""
        own = None if request is None else [_is_continued(request), str(request) or "no reason given"]
        of_all = self._peers.gather(f"the beginning of epoch {epoch_num}", own, timeout_secs=LONG_WAIT_SECS)
        reasons = {rank: each for rank, each in enumerate(of_all) if each}
        if reasons and request is None:
            kind = Interrupted if any(is_continued for is_continued, _ in reasons.values()) else StopTraining
            raise _of_all(kind, "; ".join(f"worker {rank}: {text}" for rank, (_, text) in reasons.items()))


def _of_all(kind: type[Any], reason: str) -> BaseException:
    """Return a reason to stop that all workers have."""
    request: BaseException = kind(reason)
    request.is_of_all = True  # type: ignore[attr-defined]
    return request


def _is_continued(request: BaseException) -> bool:
    """Tell whether another run will continue, so that this one saves: after a signal, or for lack of time."""
    return isinstance(request, Interrupted) or (isinstance(request, StopTraining) and request.to_be_continued)


def _request_of_others(total: float) -> BaseException:
    if total >= StopFlag.SIGNAL:
        return _of_all(Interrupted, "another worker got a signal to end, or its time is over")
    return _of_all(StopTraining, "another worker has asked for it")


def _local(name: str, initializer: tf.Tensor, dtype: tf.DType) -> tf.Variable:
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.get_variable(name, [], dtype, initializer, trainable=False, collections=collections, use_resource=True)
