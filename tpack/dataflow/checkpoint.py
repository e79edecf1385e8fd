"""Where the consumer of a flow is that is read ahead of it: a state the flow had, and the data points taken since then.

Workers, threads and queues take data points from a flow before anybody uses them. Where the flow is by then is not what
a checkpoint must say, and a flow may need a while to say it. So it is asked now and then, as often as costs a hundredth
of the time at most (`StateSampler`), and what it says is kept until the points after it are used (`StateLog`). Going to
a position means to load a state and to skip the points that were used since; it is as exact as the state is.
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.iterator_state import StatelessError, StateReader, close_iterator, make_state, skip

_SHARE = 100


@dataclass(frozen=True)
class Position:
    """A place in the passes over a flow.

    Attributes:
        state: what the flow said.
        skipped: how many data points were taken since.
        is_over: whether the pass that these belong to was given up.
    """

    state: dict[str, Any]
    skipped: int = 0
    is_over: bool = False

    def after(self, count: int) -> "Position":
        """Return the position after more data points of the same pass."""
        return replace(self, skipped=self.skipped + count)

    def state_of(self, owner: DataFlow) -> dict[str, Any]:
        """Return the position as the state of a flow that reads the one it is in, ``owner.ds``, ahead."""
        return make_state(owner, ds=copy.deepcopy(self.state), skipped=self.skipped, is_over=self.is_over)

    @classmethod
    def from_state(cls, owner: DataFlow, state: dict[str, Any]) -> "Position":
        """Return the position that ``state_of`` made a state of.

        Raises:
            InputError: It is the state of another kind of flow.
        """
        saved = StateReader(owner, state, "ds", "skipped", "is_over")
        return cls(saved["ds"], saved.count("skipped"), saved.flag("is_over"))


def go_to(ds: DataFlow, position: Position) -> Iterator[Any]:
    """Send a flow to a position.

    Args:
        ds: the flow, after its ``reset_state``.
        position: the position.

    Returns:
        The rest of the pass; a new pass if the position is the end of one.

    Raises:
        InputError: The state is not one of this flow, or the flow has become shorter.
    """
    ds.load_state_dict(position.state)
    points = iter(ds)
    skip(ds, points, position.skipped)
    if not position.is_over:
        return points
    close_iterator(points)
    ds.end_pass()
    return iter(ds)


class StateSampler:
    """Asks a flow for its state, now and then.

    Args:
        ds: the flow, after its ``reset_state``.
        every: at how many data points the clock is looked at, for the sake of small points.

    Attributes:
        reason: why the flow cannot tell its position; None as long as it can.
    """

    def __init__(self, ds: DataFlow, every: int = 16) -> None:
        self._ds = ds
        self._every = every
        self._points = 0
        self._not_before = 0.0
        self.reason: str | None = None

    def take(self) -> Position | None:
        """Return the position that the flow is at; None if it cannot tell, and then ``reason`` says why."""
        begin = time.monotonic()
        try:
            state = self._ds.state_dict()
        except StatelessError as error:
            self.reason = str(error)
            return None
        self.rest(begin)
        return Position(state)

    def rest(self, since: float) -> None:
        """Be due again when a hundred times as long has passed as since a time of the monotonic clock."""
        now = time.monotonic()
        self._points = 0
        self._not_before = now + _SHARE * (now - since)

    def is_due(self) -> bool:
        """Tell, after each data point, whether it is time to take the state."""
        self._points += 1
        if self._points % self._every or self.reason is not None:
            return False
        return time.monotonic() >= self._not_before


class StateLog:
    """Positions that a flow was at while it was read ahead, each with the number of points of the pass read by then.

    One thread may read the flow and write the log while another asks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[tuple[int, Position]] = deque()

    def begin(self, start: Position | None) -> None:
        """Forget what was, and begin a pass at a position; None if it is not known."""
        with self._lock:
            self._entries.clear()
            if start is not None:
                self._entries.append((0, start))

    def add(self, num_read: int, position: Position, num_used: int) -> None:
        """Take note of where the flow is.

        Args:
            num_read: how many points of the pass were read.
            position: where the flow is.
            num_used: how many were used for sure, so that what is not needed any more is forgotten.
        """
        with self._lock:
            self._entries.append((num_read, position))
            while len(self._entries) > 1 and self._entries[1][0] < num_used:
                self._entries.popleft()

    def after(self, num_used: int) -> Position | None:
        """Return the position after a number of points of the pass; None if it is not known.

        It is told by a state before the last of these points: a flow that has given nothing since its state was loaded
        cannot be told to give up the pass, since for the flow that pass has not begun.
        """
        with self._lock:
            older = [entry for entry in self._entries if entry[0] < max(1, num_used)]
        if not older:
            return None
        num_read, position = older[-1]
        return position.after(num_used - num_read)


class PassTracker:
    """What the consumer has taken of a flow that runs ahead of it, and where the flow has to be sent.

    ::

        end_broken_pass, begin -> num_taken += 1, ... -> end    the flow stands where the next pass begins
               ^                        |
               +------------------------+                       broken off: the flow has run on and must be sent back

    Args:
        what: which flow it is, for messages.

    Attributes:
        num_taken: how many points of the pass were taken since the position that it was begun at.
        reason: why the flow cannot tell its position; None as long as it can.
        is_astray: whether the flow does not stand where the next pass begins.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._log = StateLog()
        self._is_over = False
        self._is_inside = False
        self.num_taken = 0
        self.reason: str | None = None
        self.is_astray = False

    @property
    def position(self) -> Position | None:
        """Where the consumer is; None if that is not known."""
        position = self._log.after(self.num_taken)
        return replace(position, is_over=True) if position is not None and self._is_over else position

    def known_position(self) -> Position:
        """Return the position.

        Raises:
            StatelessError: It is not known.
        """
        position = self.position
        if position is None:
            raise StatelessError(f"{self._what} cannot tell its position: {self.reason}")
        return position

    def stand_at(self, position: Position | None, reason: str | None = None) -> None:
        """Be at a position that the flow told; None if it could not, for a reason."""
        self._log.begin(position)
        self.num_taken = 0
        self.reason = reason
        self._is_over = False

    def add(self, num_read: int, position: Position) -> None:
        """Take note of where the flow is, which has read that many points of the pass that was begun."""
        self._log.add(num_read, position, self.num_taken)

    def begin(self) -> None:
        """Begin a pass, after the flow was sent where it begins."""
        self._is_inside = self.is_astray = True

    def end(self) -> None:
        """End a pass: the flow stands where the next one begins."""
        self._is_inside = self.is_astray = False

    def go_to(self, position: Position, *, is_there: bool) -> None:
        """Let the next pass begin at a position, which the flow is at, or is to be sent to before."""
        self.stand_at(position)
        self._is_inside, self.is_astray = False, not is_there

    def end_broken_pass(self) -> None:
        """Give up the rest of a pass if one was broken off; to be called before a pass is begun."""
        if self._is_inside:
            self.end_pass()

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        position = self.position
        # A pass of which no point was taken has not begun, for the flow.
        if position is not None and position.skipped:
            self._is_over = self.is_astray = True
        self._is_inside = False
