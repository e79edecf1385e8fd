"""Each data point from a flow that is drawn for it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow
from tpack.dataflow.combine import FlowList
from tpack.dataflow.passes import Passes
from tpack.dataflow.state import make_state, read_flag, read_state, rng_from_state, rng_state
from tpack.errors import ConfigError


class RandomChooseData(FlowList, RNGDataFlow):
    """Draw a flow for each data point, and end when the flow that was drawn has ended.

    The length is not known. Wrap flows in ``RepeatedData(ds, -1)`` to never end.
    """

    def __init__(self, df_lists: Sequence[DataFlow] | Sequence[tuple[DataFlow, float]]) -> None:
        """Make the flow.

        Args:
            df_lists: the flows, which are equally likely; or pairs of a flow and its probability.

        Raises:
            ConfigError: It is neither, or the probabilities do not sum up to 1.
        """
        flows, probabilities = _split(df_lists)
        super().__init__(flows)
        # What is no number is neither less nor more than another.
        if not (min(probabilities) >= 0 and abs(sum(probabilities) - 1) <= 1e-6):
            raise ConfigError(f"RandomChooseData got the probabilities {probabilities}: wanted such that sum up to 1")
        # Divided by the sum, so that no draw lies behind the last.
        self._bounds = np.cumsum(probabilities) / np.sum(probabilities)
        self._passes: Passes[bool] = Passes(False)

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        with self._iterators(is_resumed=one.value) as iterators:
            is_more = True
            while is_more:
                which = int(np.searchsorted(self._bounds, self.rng.random_sample(), side="right"))
                is_more = False
                for point in iterators[which]:
                    is_more = one.value = True
                    yield point
                    break
        if self._passes.end(one):
            FlowList.end_pass(self)

    def reset_state(self) -> None:
        """Get a new generator, reset each flow once and forget the position."""
        RNGDataFlow.reset_state(self)
        FlowList.reset_state(self)
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the generator and the positions of the flows."""
        rng, flows = rng_state(self.rng), self._flow_states()
        return make_state(self, rng=rng, flows=flows, has_begun=self._passes.value)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind or number of flows; nothing was changed.
        """
        saved_rng, flows, has_begun = read_state(self, state, "rng", "flows", "has_begun")
        rng, has_begun = rng_from_state(saved_rng), read_flag(self, "has_begun", has_begun)
        self._load_flow_states(flows)
        self.rng = rng
        self._passes.go_to(has_begun)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()


def _split(df_lists: Any) -> tuple[list[Any], list[float]]:
    """Return flows and their probabilities; what is neither a flow nor a pair is taken for a flow."""
    if not isinstance(df_lists, (list, tuple)) or not df_lists:
        raise ConfigError(f"RandomChooseData got {df_lists!r:.100}: wanted a list of at least one DataFlow")
    pairs = [entry for entry in df_lists if isinstance(entry, (list, tuple)) and len(entry) == 2]
    if not pairs:
        return list(df_lists), [1 / len(df_lists)] * len(df_lists)
    if len(pairs) < len(df_lists):
        raise ConfigError("RandomChooseData got flows with and without a probability: wanted it for all or none")
    try:
        return [ds for ds, _ in pairs], [float(probability) for _, probability in pairs]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"RandomChooseData got a probability that is no number: {error}") from error
