"""A flow several times, or for ever."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, UnknownLengthError
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_flag, read_state
from tpack.errors import DataExhaustedError


class RepeatedData(ProxyDataFlow):
    """Go through the wrapped flow several times in one pass."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num: how many times; -1 is for ever.

        Raises:
            ConfigError: The number is neither -1 nor at least 1.
        """
        super().__init__(ds)
        self.num = num if num == -1 else check_at_least(self, "num", num)
        # How many repetitions are finished, and whether the one that runs has yielded a point.
        self._passes: Passes[tuple[int, bool]] = Passes((0, False))

    def __len__(self) -> int:
        """Return the number of data points.

        Raises:
            UnknownLengthError: The flow is repeated for ever, or does not know its length.
        """
        if self.num == -1:
            raise UnknownLengthError("RepeatedData(ds, -1) goes on for ever and has no length")
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataExhaustedError: The wrapped flow ended without one data point; repeating it might never end.
        """
        one = self._passes.begin()
        finished, has_points = one.value
        while finished != self.num:
            for point in self.ds:
                if not has_points:
                    has_points = True
                    one.value = finished, True
                yield point
            if not has_points:
                raise DataExhaustedError(f"{type(self.ds).__name__} yielded nothing in repetition {finished}")
            finished += 1
            has_points = False
            one.value = finished, False
        self._passes.end(one)

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return how many repetitions are finished, and the position of the wrapped flow."""
        finished, has_points = self._passes.value
        return make_state(self, ds=self.ds.state_dict(), finished=finished, has_points=has_points)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow or of more repetitions; nothing was changed.
        """
        inner, finished, has_points = read_state(self, state, "ds", "finished", "has_points")
        finished = read_count(self, "finished", finished, at_most=None if self.num == -1 else self.num)
        has_points = read_flag(self, "has_points", has_points)
        self.ds.load_state_dict(inner)
        self._passes.go_to((finished, has_points))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        self.ds.end_pass()
