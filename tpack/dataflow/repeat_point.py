"""Each data point several times."""

from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.held import freeze_points, thaw_points
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_state
from tpack.errors import InputError


class RepeatedDataPoint(ProxyDataFlow):
    """Yield each data point of the wrapped flow several times in a row, the same object.

    Its position includes the point that is being repeated.
    """

    def __init__(self, ds: DataFlow, num: int) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num: how many times.

        Raises:
            ConfigError: The number is less than 1.
        """
        super().__init__(ds)
        self.num = check_at_least(self, "num", num)
        # How often the newest point was yielded, and that point in a list that is empty before the first.
        self._passes: Passes[tuple[int, list[Any]]] = Passes((0, []))

    def __len__(self) -> int:
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        done, held = one.value
        for point in held:
            for count in range(done, self.num):
                one.value = count + 1, held
                yield point
        for point in self.ds:
            for count in range(self.num):
                one.value = count + 1, [point]
                yield point
        self._passes.end(one)

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, the point that is repeated and how often it was yielded.

        Raises:
            StatelessError: The point cannot be serialized, or the wrapped flow cannot tell its position.
        """
        done, held = self._passes.value
        # A point that was yielded as often as it should be is not needed any more.
        points = freeze_points(self, held if done < self.num else [])
        return make_state(self, ds=self.ds.state_dict(), points=points, done=done)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow or of more repetitions; nothing was changed.
        """
        inner, frozen, done = read_state(self, state, "ds", "points", "done")
        done = read_count(self, "done", done, at_most=self.num)
        points = thaw_points(self, frozen)
        if len(points) > 1:
            raise InputError(f"the state of a RepeatedDataPoint holds {len(points)} data points: wanted one at most")
        self.ds.load_state_dict(inner)
        self._passes.go_to((done, points))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        self.ds.end_pass()
