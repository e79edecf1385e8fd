"""Data points made of random numbers, to try and to time what comes after the data."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.base import RNGDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_state, rng_from_state, rng_state
from tpack.errors import ConfigError


@dataclass(frozen=True)
class _Component:
    """Shape, type and range of one component."""

    shape: tuple[int, ...]
    dtype: np.dtype
    domain: tuple[float, float]

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        """Draw an array uniformly from the range, its upper end excluded (but for rounding)."""
        return np.asarray(rng.uniform(*self.domain, size=self.shape)).astype(self.dtype)


class FakeData(RNGDataFlow):
    """Yield lists of uniform random arrays of given shapes and types."""

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: Any = "float32",
        domain: Any = (0, 1),
    ) -> None:
        """Make the flow.

        Args:
            shapes: the shape of each component.
            size: the number of data points of a pass.
            random: whether each data point is drawn anew. Otherwise one is drawn for each pass and yielded again and
                again, which costs nothing.
            dtype: numpy's name of the type; or a list of one for each component.
            domain: the least number and the end of the range; or a list of one such pair for each component.

        Raises:
            ConfigError: A type, a shape or a range makes no sense, or a list has not one entry for each component.
        """
        self._size = check_at_least(self, "size", size)
        self._random = random
        count = len(shapes)
        dtypes: Sequence[Any] = dtype if isinstance(dtype, (list, tuple)) else [dtype] * count
        is_pair = not all(map(np.iterable, domain))
        domains: Sequence[Any] = [domain] * count if is_pair else domain
        for name, values in (("dtype", dtypes), ("domain", domains)):
            if len(values) != count:
                raise ConfigError(f"FakeData got {count} shapes and {len(values)} of {name}: wanted one for each")
        self._components = [_make(k, *spec) for k, spec in enumerate(zip(shapes, dtypes, domains, strict=True))]
        self._passes: Passes[int] = Passes(0)
        # What the one data point of the newest pass was drawn from.
        self._begun_with: list[Any] = []

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        begun_with = [] if self._random else rng_state(self.rng)
        fixed = None if self._random else self._draw()
        one = self._passes.begin()
        self._begun_with = begun_with
        while one.value < self._size:
            point = self._draw() if fixed is None else fixed
            one.value += 1
            yield point
        self._passes.end(one)

    def reset_state(self) -> None:
        """Get a new generator and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return how many points were taken, and the generator that the next ones are drawn from."""
        is_drawn_once = self._passes.has_newest and not self._random
        rng = copy.deepcopy(self._begun_with) if is_drawn_once else rng_state(self.rng)
        return make_state(self, index=self._passes.value, rng=rng)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow or of another size; nothing was changed.
        """
        index, rng = read_state(self, state, "index", "rng")
        index = read_count(self, "index", index, at_most=self._size)
        self.rng = rng_from_state(rng)
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        if self._passes.is_sent and not self._random:
            # The point of the pass that is given up was drawn in the run that this one goes on with.
            self._draw()
        self._passes.reset()

    def _draw(self) -> list[np.ndarray]:
        return [component.draw(self.rng) for component in self._components]


def _make(index: int, shape: Sequence[int], dtype: Any, domain: Sequence[float]) -> _Component:
    """Check and gather what is known of one component."""
    try:
        component = _Component(tuple(map(int, shape)), np.dtype(dtype), (float(domain[0]), float(domain[1])))
    except (TypeError, ValueError, IndexError) as error:
        raise ConfigError(f"FakeData component {index}: {shape=}, {dtype=}, {domain=}: {error}") from error
    if min(component.shape, default=0) < 0 or not component.domain[0] <= component.domain[1]:
        raise ConfigError(
            f"FakeData component {index}: {shape=}, {domain=}: wanted sizes of at least 0 and a range (low, high)"
        )
    return component
