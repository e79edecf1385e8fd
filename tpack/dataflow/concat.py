"""Flows one after the other."""

from collections.abc import Iterator, Sequence
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.combine import FlowList
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_count, read_state


class ConcatData(FlowList):
    """Yield all data points of the first flow, then all of the second, and so on."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        """Make the flow.

        Args:
            df_lists: the flows.

        Raises:
            ConfigError: It is no list of DataFlows, or an empty one.
        """
        super().__init__(df_lists)
        self._passes: Passes[int] = Passes(0)

    def __len__(self) -> int:
        return sum(map(len, self.df_lists))

    def __iter__(self) -> Iterator[Any]:
        # Passes that were broken off in flows that are not reached yet must not be gone on with.
        for ds in self.df_lists[self._passes.next_start + 1 :]:
            ds.end_pass()
        one = self._passes.begin()
        while one.value < len(self.df_lists):
            yield from self.df_lists[one.value]
            one.value += 1
        self._passes.end(one)

    def reset_state(self) -> None:
        """Reset each flow once and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return which flow is being iterated, and its position."""
        return make_state(self, which=self._passes.value, flows=self._flow_states())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind or number of flows; nothing was changed.
        """
        which, flows = read_state(self, state, "which", "flows")
        which = read_count(self, "which", which, at_most=len(self.df_lists) - 1)
        self._load_flow_states(flows)
        self._passes.go_to(which)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()
