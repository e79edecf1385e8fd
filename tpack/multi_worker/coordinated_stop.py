"""Workers end training together: after the same step, or before the same epoch.

One that ended by itself would leave the others waiting for it, in a step or between two epochs. So a worker that is to
end, by a signal or since a callback wants it, says so and goes on: with the gradients of its next step, after which all
end; or, when an epoch is over, where all meet before the next one.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import StopTraining
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.stop_flag import StopFlag
from tpack.train.interruption import Interrupted
from tpack.types import Session

LONG_SECS = 86400.0
"""How long workers wait for one that saves or validates; one that is lost is noticed long before."""


class CoordinatedStop:
    """What this worker wants and what it has heard of the others.

    Args:
        peers: the workers.
        end_signal: by which they tell each other in a step.

    Attributes:
        told: what was heard in the last step; 0 for nothing.
    """

    def __init__(self, peers: Peers, end_signal: StopFlag) -> None:
        self._peers = peers
        self._end_signal = end_signal
        self._request: BaseException | None = None
        self.told = 0.0

    def after_step(self, session: Session, request: BaseException | None) -> None:
        """End if all do after the step that was made; else tell the others what this worker wants, in the next one.

        Args:
            session: makes the steps.
            request: what is to end training here; None for nothing.

        Raises:
            StopTraining: A callback wanted it, in any worker.
            Interrupted: A signal came, in any worker.
        """
        if self.told:
            raise self._request or request or _requested(self.told)
        if request is not None and self._request is None:
            self._request = request
            if self._end_signal.told is not None:
                self._end_signal.say(session, StopFlag.SIGNAL if _is_continued(request) else StopFlag.STOP)

    def ask_at_once(self, session: Session) -> None:
        """Tell the others in the next step that a signal has come; from another thread, while several are made."""
        try:
            self._end_signal.say(session, StopFlag.SIGNAL)
        except (RuntimeError, tf.errors.OpError):
            # The session is closed, and nobody trains any more.
            return

    def hear_kept(self, session: Session) -> None:
        """Hear what was said in the last of several steps, which ended before there were as many as there should be."""
        self.told = self._end_signal.kept(session)

    def before_epoch(self, epoch_num: int) -> None:
        """Go on with an epoch if all do.

        Raises:
            StopTraining: A callback wants to end, in any worker.
            Interrupted: A signal came, in any worker.
        """
        self._meet(epoch_num, self._request)
        if self._request is not None:
            raise self._request

    def end_after_epoch(self, epoch_num: int, request: BaseException) -> None:
        """Tell those who wait before the next epoch why this worker ends, if they do not know.

        Args:
            epoch_num: the next one.
            request: what ends training here.
        """
        if request is not self._request and not getattr(request, "is_of_all", False):
            self._meet(epoch_num, request)

    def _meet(self, epoch_num: int, request: BaseException | None) -> None:
        """Wait for all before an epoch, and end with those that want to."""
        said = None if request is None else [_is_continued(request), str(request) or "no reason given"]
        told = self._peers.gather(f"the beginning of epoch {epoch_num}", said, timeout_secs=LONG_SECS)
        reasons = [f"worker {rank}: {each[1]}" for rank, each in enumerate(told) if each]
        if reasons and request is None:
            is_signal = any(each[0] for each in told if each)
            raise _of_all(Interrupted if is_signal else StopTraining, "; ".join(reasons))


def _of_all(kind: type[Any], reason: str) -> BaseException:
    """Return what ends training on all workers, none of which has to be told."""
    request: BaseException = kind(reason)
    request.is_of_all = True  # type: ignore[attr-defined]
    return request


def _is_continued(request: BaseException) -> bool:
    """Tell whether another run is to go on, so that training is saved: after a signal, or for lack of time."""
    return isinstance(request, Interrupted) or (isinstance(request, StopTraining) and request.to_be_continued)


def _requested(told: float) -> BaseException:
    """Return what ends training here because of what other workers have said."""
    if told >= StopFlag.SIGNAL:
        return _of_all(Interrupted, "another worker was told to end by a signal, or its time is over")
    return _of_all(StopTraining, "another worker has asked for it")
