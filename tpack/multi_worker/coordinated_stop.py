"""Coordinated end of training: all workers stop after the same step, or before the same epoch.

A worker that stopped by itself would leave the others waiting, in a step or between two epochs. So a worker that is to
stop, by a signal or a callback, sets a flag and goes on: it travels with the gradients of the next step, after which
all stop; or, when an epoch is over, in an exchange before the next one.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import StopTraining
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.stop_flag import StopFlag
from tpack.train.interruption import Interrupted
from tpack.types import Session

LONG_SECS = 86400.0
"""The timeout for a worker that saves or validates; a lost one is detected long before."""


class CoordinatedStop:
    """State of the coordinated end in one worker.

    Args:
        peers: the workers.
        end_signal: the stop flag of a step.

    Attributes:
        told: the sum of the stop flags of the last step; 0 for none.
    """

    def __init__(self, peers: Peers, end_signal: StopFlag) -> None:
        self._peers = peers
        self._end_signal = end_signal
        self._request: BaseException | None = None
        self.told = 0.0

    def after_step(self, session: Session, request: BaseException | None) -> None:
        """Stop if a flag was set in the last step; otherwise set this worker's for the next one.

        Args:
            session: makes the steps.
            request: the reason to stop here; None without one.

        Raises:
            StopTraining: A callback stops training, in any worker.
            Interrupted: A signal does, in any worker.
        """
        if self.told:
            raise self._request or request or _requested(self.told)
        if request is not None and self._request is None:
            self._request = request
            if self._end_signal.told is not None:
                self._end_signal.say(session, StopFlag.SIGNAL if _is_continued(request) else StopFlag.STOP)

    def ask_at_once(self, session: Session) -> None:
        """Set the flag for the next step after a signal; from another thread, while a call makes several."""
        try:
            self._end_signal.say(session, StopFlag.SIGNAL)
        except (RuntimeError, tf.errors.OpError):
            # The session is closed, and nobody trains any more.
            return

    def hear_kept(self, session: Session) -> None:
        """Read the flag of the last step of a call that ended early."""
        self.told = self._end_signal.kept(session)

    def before_epoch(self, epoch_num: int) -> None:
        """Go on with an epoch if all workers do.

        Raises:
            StopTraining: A callback stops training, in any worker.
            Interrupted: A signal does, in any worker.
        """
        self._meet(epoch_num, self._request)
        if self._request is not None:
            raise self._request

    def end_after_epoch(self, epoch_num: int, request: BaseException) -> None:
        """Report to workers that wait before the next epoch why this one stops, unless they know.

        Args:
            epoch_num: the next one.
            request: the reason to stop here.
        """
        if request is not self._request and not getattr(request, "is_of_all", False):
            self._meet(epoch_num, request)

    def _meet(self, epoch_num: int, request: BaseException | None) -> None:
        """Wait for all before an epoch, and stop with those that do."""
        said = None if request is None else [_is_continued(request), str(request) or "no reason given"]
        told = self._peers.gather(f"the beginning of epoch {epoch_num}", said, timeout_secs=LONG_SECS)
        reasons = [f"worker {rank}: {each[1]}" for rank, each in enumerate(told) if each]
        if reasons and request is None:
            is_signal = any(each[0] for each in told if each)
            raise _of_all(Interrupted if is_signal else StopTraining, "; ".join(reasons))


def _of_all(kind: type[Any], reason: str) -> BaseException:
    """Return a reason to stop that all workers know."""
    request: BaseException = kind(reason)
    request.is_of_all = True  # type: ignore[attr-defined]
    return request


def _is_continued(request: BaseException) -> bool:
    """Tell whether another run will continue, so that this one saves: after a signal, or for lack of time."""
    return isinstance(request, Interrupted) or (isinstance(request, StopTraining) and request.to_be_continued)


def _requested(told: float) -> BaseException:
    """Return the reason to stop for a flag of other workers."""
    if told >= StopFlag.SIGNAL:
        return _of_all(Interrupted, "another worker got a signal to end, or its time is over")
    return _of_all(StopTraining, "another worker has asked for it")
