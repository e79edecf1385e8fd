"""Data points from a generator function."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.dataflow.passes import Passes, leave, skip
from tpack.dataflow.state import make_state, read_count, read_state
from tpack.errors import ConfigError, InputError


class DataFromGenerator(DataFlow):
    """Call a generator function for each pass and yield what it yields. The length is not known.

    To go to a position, it takes and drops what was taken before in that pass. The function must therefore yield the
    same in another process: one that draws random numbers of its own, or counts its calls, does not.
    """

    def __init__(self, gen: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        """Make the flow.

        Args:
            gen: a function without arguments that returns an iterable, typically a generator function; or an iterable,
                as ``DataFromIterable`` takes.

        Raises:
            ConfigError: It is neither.
        """
        if not callable(gen) and not hasattr(gen, "__iter__"):
            raise ConfigError(f"DataFromGenerator got a {type(gen).__name__}: wanted a generator function")
        self._gen = gen if callable(gen) else DataFromIterable(gen)
        self._passes: Passes[int] = Passes(0)

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        is_function = callable(self._gen)
        points = iter(self._gen() if callable(self._gen) else self._gen)
        try:
            skip(self, points, one.value if is_function else 0)
            for point in points:
                one.value += 1
                yield point
        finally:
            leave(points)
        self._passes.end(one)

    def reset_state(self) -> None:
        """Forget the position."""
        self._passes.reset()
        if isinstance(self._gen, DataFromIterable):
            self._gen.reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return how many points were taken."""
        inner = self._gen.state_dict() if isinstance(self._gen, DataFromIterable) else None
        return make_state(self, index=self._passes.value, iterable=inner)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position: the next pass drops what was taken before.

        Raises:
            InputError: The state is of another kind of flow; nothing was changed. The next pass raises it if it ends
                too early.
        """
        index, inner = read_state(self, state, "index", "iterable")
        index = read_count(self, "index", index)
        if isinstance(self._gen, DataFromIterable):
            self._gen.load_state_dict(inner)
        elif inner is not None:
            raise InputError("DataFromGenerator has a function, and got the state of one with an iterable")
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        if isinstance(self._gen, DataFromIterable):
            self._gen.end_pass()
