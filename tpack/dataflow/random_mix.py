"""All data points of several flows, evenly mixed."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow
from tpack.dataflow.combine import FlowList
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_state, rng_from_state, rng_state
from tpack.errors import DataExhaustedError


class RandomMixData(FlowList, RNGDataFlow):
    """Yield the data points of all flows, in a random order that keeps the order of those of one flow.

    Every such order is as likely as any other, so that a flow of twice the length comes up twice as often from the
    first data point to the last. Each flow must yield as many data points as its length says.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        """Make the flow.

        Args:
            df_lists: the flows, each of known length.

        Raises:
            ConfigError: It is no list of DataFlows, or an empty one.
            UnknownLengthError: A flow does not know its length.
        """
        super().__init__(df_lists)
        self._lengths = [len(ds) for ds in df_lists]
        self._passes: Passes[int] = Passes(0)
        self._begun_with: list[Any] = []

    def __len__(self) -> int:
        return sum(self._lengths)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataExhaustedError: A flow ended before its length.
        """
        begun_with = rng_state(self.rng)
        order = self._draw_order()
        one = self._passes.begin()
        self._begun_with = begun_with
        with self._iterators(is_resumed=one.value > 0) as iterators:
            for which in order[one.value :].tolist():
                point = self._next(iterators[which], which)
                one.value += 1
                yield point
        if self._passes.end(one):
            FlowList.end_pass(self)

    def reset_state(self) -> None:
        """Get a new generator, reset each flow once and forget the position."""
        RNGDataFlow.reset_state(self)
        FlowList.reset_state(self)
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return how many points were taken, what their order was drawn from, and the positions of the flows."""
        kind, keys, *rest = self._begun_with if self._passes.has_newest else rng_state(self.rng)
        return make_state(self, index=self._passes.value, rng=[kind, np.array(keys), *rest], flows=self._flow_states())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind or number of flows; nothing was changed.
        """
        index, saved_rng, flows = read_state(self, state, "index", "rng", "flows")
        index, rng = read_count(self, "index", index, at_most=len(self)), rng_from_state(saved_rng)
        self._load_flow_states(flows)
        self.rng = rng
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        if self._passes.is_sent:
            # The order of the pass that is given up was drawn in the run that this one goes on with.
            self._draw_order()
        self._passes.reset()
        super().end_pass()

    def _draw_order(self) -> np.ndarray:
        """Return which flow each data point of a pass is from."""
        order = np.repeat(np.arange(len(self.df_lists), dtype=np.int32), self._lengths)
        self.rng.shuffle(order)
        return order

    def _next(self, points: Iterator[Any], which: int) -> Any:
        """Return the next data point of a flow."""
        for point in points:
            return point
        raise DataExhaustedError(
            f"RandomMixData: the {type(self.df_lists[which]).__name__} at place {which} ended before the "
            f"{self._lengths[which]} data points that its length promised"
        )
