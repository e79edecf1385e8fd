"""Where a flow is, told by a state that it had a little before and the number of data points since then.

Asking a flow for its state may take time, and a flow that runs ahead of its consumer would have to be asked after each
data point. So it is asked now and then, as often as costs a hundredth of the time at most; going to a position means to
load the last state and to skip the points that were taken since. It is as exact as the state is.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.state import StatelessError, leave, skip

_SHARE = 100
_MIN_POINTS = 16


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


class StateTaker:
    """Asks a flow for its state, now and then."""

    def __init__(self, ds: DataFlow) -> None:
        """Ask nothing yet.

        Args:
            ds: the flow, after its ``reset_state``.
        """
        self._ds = ds
        self._points = 0
        self._not_before = 0.0
        self.reason: str | None = None

    def take(self) -> dict[str, Any] | None:
        """Return the state of the flow; None if it has none, and then ``reason`` says why."""
        begin = time.monotonic()
        try:
            state = self._ds.state_dict()
        except StatelessError as error:
            self.reason = str(error)
            return None
        end = time.monotonic()
        self._points = 0
        self._not_before = end + _SHARE * (end - begin)
        return state

    def is_due(self) -> bool:
        """Tell, after each data point, whether it is time to take the state."""
        self._points += 1
        # The clock is looked at now and then only, for the sake of small points.
        if self._points % _MIN_POINTS or self.reason is not None:
            return False
        return time.monotonic() >= self._not_before


def go_to(owner: Any, ds: DataFlow, position: Position) -> Iterator[Any]:
    """Send a flow to a position.

    Args:
        owner: what for, for messages.
        ds: the flow, after its ``reset_state``.
        position: the position.

    Returns:
        The rest of the pass; a new pass if the position is the end of one.

    Raises:
        InputError: The state is none of this flow, or the flow has become shorter.
    """
    ds.load_state_dict(position.state)
    points = iter(ds)
    skip(owner, points, position.skipped)
    if not position.is_over:
        return points
    leave(points)
    ds.end_pass()
    return iter(ds)
