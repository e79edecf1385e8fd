"""One pass over a flow, read one point ahead, so that a point for which there is no room now is not lost."""

from collections.abc import Callable, Iterator
from typing import Any


class Reader:
    """Reads a pass; its end and an exception are found when the point after the last is wanted.

    Args:
        points: the pass.
        when_read: called with the number of points read so far after each, and before the end is known.
    """

    def __init__(self, points: Iterator[Any], when_read: Callable[[int], None] | None = None) -> None:
        self._points = points
        self._when_read = when_read
        self._held: list[Any] = []
        self._read = 0
        self.is_over = False
        self._error: Exception | None = None

    @property
    def taken(self) -> int:
        """The number of points that were taken."""
        return self._read - len(self._held)

    def has_next(self) -> bool:
        """Tell whether there is another point, which ``next`` is then."""
        if self._held:
            return True
        if self.is_over:
            return False
        try:
            self._held.append(next(self._points))
        except StopIteration:
            self.is_over = True
            return False
        except Exception as error:
            # What was read before is to arrive before it.
            self.is_over, self._error = True, error
            return False
        self._read += 1
        if self._when_read is not None:
            self._when_read(self._read)
        return True

    @property
    def next(self) -> Any:
        """The point that ``has_next`` has found."""
        return self._held[0]

    def take(self) -> None:
        """Go on to the point after it."""
        self._held.clear()

    def pop_error(self) -> Exception | None:
        """Return the exception that ended the pass, if one did; only once, since it refers to this reader."""
        error, self._error = self._error, None
        return error
