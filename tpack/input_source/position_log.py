"""Where a dataflow was when it gave each of the data points that are under way to the steps.

Data points are taken from a dataflow long before a step uses them. What a checkpoint must say is where the flow was at
the last data point that a finished step used. So states of the flow are kept until the points after them are used:
not after each point, since a flow may take a while to tell its state, but as often as costs a hundredth of the time.
Between two states, points are counted; who goes to such a position skips them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.parallel.position import Position
from tpack.dataflow.state import StatelessError

_SHARE = 100


class PositionLog:
    """The positions of a flow while it is iterated, from the last point that a step used to the newest.

    All methods but `position` belong to the thread that iterates.

    Args:
        ds: the flow.
        count_used: returns how many points of this iteration the finished steps have used, or raises a StatelessError
            because this is not known.
        max_under_way: a number of points that are never exceeded by those that were given and not used. None lets the
            thread that iterates call ``count_used``.
    """

    def __init__(self, ds: DataFlow, count_used: Callable[[], int], max_under_way: int | None = None) -> None:
        self._ds = ds
        self._count_used = count_used
        self._max_under_way = max_under_way
        self._lock = threading.Lock()
        # States, the oldest first, each with the number of points that had been given.
        self._states: deque[tuple[int, dict[str, Any]]] = deque()
        self._reason: str | None = None
        self._num_given = 0
        self._not_before = 0.0

    @property
    def num_given(self) -> int:
        """How many points of this iteration the flow has given."""
        return self._num_given

    def begin(self) -> None:
        """Begin with the flow as it is now, right before the first point of an iteration."""
        with self._lock:
            self._states.clear()
            self._reason = None
            self._num_given = 0
        self._keep_state()

    def point_given(self) -> None:
        """Count a point, right after the flow gave it."""
        self._num_given += 1
        if self._reason is None and time.monotonic() >= self._not_before:
            self._keep_state()

    def position(self) -> Position | None:
        """Return the position right after the last point that a finished step used; no step may be running.

        Returns:
            None before `begin`.

        Raises:
            StatelessError: The flow cannot tell its position, or it is not known what was used.
        """
        num_used = self._count_used()
        with self._lock:
            if self._reason is not None:
                raise StatelessError(self._reason)
            older = [entry for entry in self._states if entry[0] <= num_used]
        return Position(older[-1][1], skipped=num_used - older[-1][0]) if older else None

    def _keep_state(self) -> None:
        begin = time.monotonic()
        try:
            state = self._ds.state_dict()
            num_used = self._count_used() if self._max_under_way is None else self._num_given - self._max_under_way
        except StatelessError as error:
            with self._lock:
                self._reason = str(error)
                self._states.clear()
            return
        with self._lock:
            self._states.append((self._num_given, state))
            while len(self._states) > 1 and self._states[1][0] <= num_used:
                self._states.popleft()
        end = time.monotonic()
        self._not_before = end + _SHARE * (end - begin)
