"""Flows side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.combine import FlowList
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_flag, read_state
from tpack.errors import DataPointError


class JoinData(FlowList):
    """Yield data points with the components of one data point of each flow; end when the first flow ends.

    Lists and tuples become one list, in the order of the flows; dicts become one dict.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        """Make the flow.

        Args:
            df_lists: the flows.

        Raises:
            ConfigError: It is no list of DataFlows, or an empty one.
        """
        super().__init__(df_lists)
        # Whether a point was yielded, so that the flows' own passes have begun.
        self._passes: Passes[bool] = Passes(False)

    def __len__(self) -> int:
        return min(map(len, self.df_lists))

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataPointError: The data points of the flows are not all lists or tuples, nor all dicts with unlike keys.
        """
        one = self._passes.begin()
        with self._iterators(is_resumed=one.value) as iterators:
            # Not zip(strict=True): that some flows are longer is allowed.
            for number, parts in enumerate(zip(*iterators, strict=False)):
                point = _join(parts, number)
                one.value = True
                yield point
        if self._passes.end(one):
            super().end_pass()

    def reset_state(self) -> None:
        """Reset each flow once and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the positions of the flows."""
        return make_state(self, flows=self._flow_states(), has_begun=self._passes.value)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind or number of flows; nothing was changed.
        """
        flows, has_begun = read_state(self, state, "flows", "has_begun")
        has_begun = read_flag(self, "has_begun", has_begun)
        self._load_flow_states(flows)
        self._passes.go_to(has_begun)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()


def _join(parts: Sequence[Any], number: int) -> Any:
    """Make one data point of several."""
    if all(isinstance(part, (list, tuple)) for part in parts):
        return [component for part in parts for component in part]
    if not all(isinstance(part, Mapping) for part in parts):
        kinds = [type(part).__name__ for part in parts]
        raise DataPointError(f"data points {number} of the flows are {kinds}: wanted lists and tuples, or dicts alone")
    joined = {key: component for part in parts for key, component in part.items()}
    if len(joined) < sum(map(len, parts)):
        raise DataPointError(f"data points {number} of the flows have keys in common: {[list(part) for part in parts]}")
    return joined
