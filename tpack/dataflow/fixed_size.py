"""Passes of a given length, whatever the length of the flow: what an epoch is, chosen freely."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.guard import DataFlowReentrantGuard
from tpack.errors import DataExhaustedError


class FixedSizeData(ProxyDataFlow):
    """Yield a fixed number of data points in each pass; the wrapped flow starts again where it ends.

    With ``keep_state`` it stays open between two passes, so only one pass at a time is allowed. Pickling forgets the
    position.
    """

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            size: the number of data points of a pass.
            keep_state: whether a pass goes on where the last one stopped, so that all data is seen in turn. Otherwise
                each begins the wrapped flow anew.

        Raises:
            ConfigError: The size is less than 1.
        """
        super().__init__(ds)
        self._size = check_at_least(self, "size", size)
        self._keep_state = keep_state
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._points: Iterator[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_points": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position in it."""
        super().reset_state()
        self._points = None

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: Another pass has not ended.
            DataExhaustedError: The wrapped flow ended without one data point.
        """
        with self._guard:
            try:
                for _ in range(self._size):
                    yield self._next()
            finally:
                if not self._keep_state:
                    self._points = None

    def _next(self) -> Any:
        """Return the next data point, from the beginning if the end is reached."""
        points, self._points = self._points, None
        # While the flow is asked it is not kept: if it raises, the next pass begins it anew.
        for point in () if points is None else points:
            self._points = points
            return point
        points = iter(self.ds)
        for point in points:
            self._points = points
            return point
        raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing: FixedSizeData wanted {self._size} points")
