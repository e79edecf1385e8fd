"""Flows over data that can be read at any place: a list, an array in a file.

Such a flow says how many data points there are and reads one of them; order, passes and positions are the same for all.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from tpack.dataflow.base import RNGDataFlow
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_state, rng_from_state, rng_state
from tpack.errors import InputError


class IndexedDataFlow(RNGDataFlow):
    """Yield numbered data points, in a new random order on each pass or in their own.

    Its position is the number of points taken and, with ``shuffle``, the generator as it was when the pass began: going
    to one costs one shuffle, however far it is.
    """

    def __init__(self, shuffle: bool) -> None:
        """Make the flow.

        Args:
            shuffle: whether each pass has a new order.
        """
        self.shuffle = shuffle
        self._passes: Passes[int] = Passes(0)
        self._begun_with: list[Any] | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of data points."""

    @abstractmethod
    def _read(self, index: int) -> Any:
        """Return a data point."""

    def reset_state(self) -> None:
        """Get a new generator and forget the position."""
        super().reset_state()
        self._passes.reset()

    def __iter__(self) -> Iterator[Any]:
        begun_with = rng_state(self.rng) if self.shuffle else None
        one = self._passes.begin()
        self._begun_with = begun_with
        for point in self._points(one.value):
            one.value += 1
            yield point
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return how many points were taken, and what their order was drawn from."""
        rng = None
        if self.shuffle:
            rng = copy.deepcopy(self._begun_with) if self._passes.has_newest else rng_state(self.rng)
        return make_state(self, index=self._passes.value, rng=rng, size=len(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow, of other data or of another order; nothing was changed.
        """
        index, rng, size = read_state(self, state, "index", "rng", "size")
        if size != len(self):
            raise InputError(
                f"{type(self).__name__} got a state over {size} data points and has {len(self)}: the data has changed"
            )
        if (rng is not None) != bool(self.shuffle):
            raise InputError(
                f"{type(self).__name__} has shuffle={self.shuffle}, and got the state of one with {not self.shuffle}"
            )
        index = read_count(self, "index", index, at_most=len(self))
        if rng is not None:
            self.rng = rng_from_state(rng)
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        if self._passes.is_sent:
            # The order of the pass that is given up was drawn in the run that this one goes on with.
            self._draw_order()
        self._passes.reset()

    def _points(self, start: int) -> Iterator[Any]:
        """Yield the data points of a pass, without the first ``start``."""
        for index in self._draw_order()[start:].tolist():
            yield self._read(index)

    def _draw_order(self) -> np.ndarray:
        """Return the indices in the order of a pass."""
        order = np.arange(len(self))
        if self.shuffle:
            self.rng.shuffle(order)
        return order
