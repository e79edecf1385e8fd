"""The position of a flow's consumer: a state that the flow had, and the number of data points taken since.

Workers, threads and queues take data points before they are used, so the flow is ahead of what a checkpoint must say,
and its state may be slow to make. `StateSampler` therefore asks for it at a hundredth of the time at most; `StateLog`
keeps the states until the points after them are used. States are in `tpack.dataflow.iterator_state`.
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
        state: the state of the flow.
        skipped: the number of data points taken since.
        is_over: whether the pass of these points was given up.
    """

    state: dict[str, Any]
    skipped: int = 0
    is_over: bool = False

    def after(self, count: int) -> "Position":
        """Return the position after more data points of the same pass."""
        return replace(self, skipped=self.skipped + count)

    def state_of(self, owner: DataFlow) -> dict[str, Any]:
        """Return the position as the state of a flow that reads ``owner.ds``, the flow of the position, ahead."""
        return make_state(owner, ds=copy.deepcopy(self.state), skipped=self.skipped, is_over=self.is_over)

    @classmethod
    def from_state(cls, owner: DataFlow, state: dict[str, Any]) -> "Position":
        """Return the position in a state made by ``state_of``; raise InputError for one of another kind of flow."""
        saved = StateReader(owner, state, "ds", "skipped", "is_over")
        return cls(saved["ds"], saved.count("skipped"), saved.flag("is_over"))


def go_to(ds: DataFlow, position: Position) -> Iterator[Any]:
    """Send a flow, after its ``reset_state``, to a position; return the rest of the pass, or a new one at the end.

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
    """Asks a flow for its state now and then.

    Args:
        ds: the flow, after its ``reset_state``.
        every: the number of data points between two looks at the clock, for the sake of small points.

    Attributes:
        reason: why the flow has no position; None as long as it has.
    """

    def __init__(self, ds: DataFlow, every: int = 16) -> None:
        self._ds = ds
        self._every = every
        self._points = 0
        self._not_before = 0.0
        self.reason: str | None = None

    def take(self) -> Position | None:
        """Return the position of the flow; None if it has none, with ``reason`` set."""
        begin = time.monotonic()
        try:
            state = self._ds.state_dict()
        except StatelessError as error:
            self.reason = str(error)
            return None
        self.rest(begin)
        return Position(state)

    def rest(self, since: float) -> None:
        """Be due again after a hundred times the time since ``since``, on the monotonic clock."""
        now = time.monotonic()
        self._points = 0
        self._not_before = now + _SHARE * (now - since)

    def is_due(self) -> bool:
        """Tell, once after each data point, whether it is time to take the state."""
        self._points += 1
        if self._points % self._every or self.reason is not None:
            return False
        return time.monotonic() >= self._not_before


class StateLog:
    """Positions of a flow while it was read ahead, each with the number of points of the pass read by then.

    One thread may read the flow and write the log while another asks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[tuple[int, Position]] = deque()

    def begin(self, start: Position | None) -> None:
        """Forget everything and begin a pass at a position; None if it is not known."""
        with self._lock:
            self._entries.clear()
            if start is not None:
                self._entries.append((0, start))

    def add(self, num_read: int, position: Position, num_used: int) -> None:
        """Record the position after `num_read` points of the pass; forget entries not needed after `num_used`."""
        with self._lock:
            self._entries.append((num_read, position))
            while len(self._entries) > 1 and self._entries[1][0] < num_used:
                self._entries.popleft()

    def after(self, num_used: int) -> Position | None:
        """Return the position after a number of points of the pass; None if it is not known.

        It is based on a state before the last of them: a flow cannot give up a pass right after its state was loaded.
        """
        with self._lock:
            older = [entry for entry in self._entries if entry[0] < max(1, num_used)]
        if not older:
            return None
        num_read, position = older[-1]
        return position.after(num_used - num_read)


class PassTracker:
    """The place of the consumer in a flow that runs ahead, and where the flow has to be sent.

    ::

        end_broken_pass, begin -> num_taken += 1, ... -> end    the flow is where the next pass begins
               ^                        |
               +------------------------+                       broken off: the flow ran on and must be sent back

    Args:
        what: the name of the flow, for messages.

    Attributes:
        num_taken: the number of points of the pass taken since the position at which it was begun.
        reason: why the flow has no position; None as long as it has.
        is_astray: whether the flow is elsewhere than where the next pass begins.
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
        """The place of the consumer; None if it is not known."""
        position = self._log.after(self.num_taken)
        return replace(position, is_over=True) if position is not None and self._is_over else position

    def known_position(self) -> Position:
        """Return the position; raise StatelessError if it is not known."""
        position = self.position
        if position is None:
            raise StatelessError(f"{self._what} has no position: {self.reason}")
        return position

    def stand_at(self, position: Position | None, reason: str | None = None) -> None:
        """Be at a position of the flow; None if it has none, for a reason."""
        self._log.begin(position)
        self.num_taken = 0
        self.reason = reason
        self._is_over = False

    def add(self, num_read: int, position: Position) -> None:
        """Record the position of the flow after a number of points of the current pass."""
        self._log.add(num_read, position, self.num_taken)

    def begin(self) -> None:
        """Begin a pass, after the flow was sent to its beginning."""
        self._is_inside = self.is_astray = True

    def end(self) -> None:
        """End a pass: the flow is where the next one begins."""
        self._is_inside = self.is_astray = False

    def go_to(self, position: Position, *, is_there: bool) -> None:
        """Let the next pass begin at a position, which the flow is at or must be sent to first."""
        self.stand_at(position)
        self._is_inside, self.is_astray = False, not is_there

    def end_broken_pass(self) -> None:
        """Give up the rest of a pass that was broken off; called before a pass is begun."""
        if self._is_inside:
            self.end_pass()

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        position = self.position
        # A pass of which no point was taken has not begun, for the flow.
        if position is not None and position.skipped:
            self._is_over = self.is_astray = True
        self._is_inside = False
