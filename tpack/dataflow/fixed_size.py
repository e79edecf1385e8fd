"""Passes of a given length, whatever the length of the flow: what an epoch is, chosen freely."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.guard import DataFlowReentrantGuard
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_flag, read_state
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
        self._passes: Passes[int] = Passes(0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_points": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position in it."""
        super().reset_state()
        self._points = None
        self._passes.reset()

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: Another pass has not ended.
            DataExhaustedError: The wrapped flow ended without one data point.
        """
        with self._guard:
            one = self._passes.begin()
            try:
                while one.value < self._size:
                    point = self._next()
                    one.value += 1
                    yield point
            finally:
                if not self._keep_state:
                    self._points = None
            self._passes.end(one)
            if not self._keep_state:
                self.ds.end_pass()

    def state_dict(self) -> dict[str, Any]:
        """Return how many points of the pass were taken, and the position of the wrapped flow."""
        index = self._passes.value
        is_open = index > 0 or self._points is not None
        return make_state(self, ds=self.ds.state_dict(), index=index, is_open=is_open)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow or of another size; nothing was changed.
        """
        inner, index, is_open = read_state(self, state, "ds", "index", "is_open")
        index = read_count(self, "index", index, at_most=self._size)
        is_open = read_flag(self, "is_open", is_open)
        self.ds.load_state_dict(inner)
        # The wrapped flow's own pass goes on, so that it may end at once without being empty.
        self._points = iter(self.ds) if is_open else None
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; the wrapped flow stays where it is if a pass goes on there."""
        self._passes.reset()
        if not self._keep_state:
            self._points = None
            self.ds.end_pass()

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
