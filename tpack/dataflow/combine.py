"""Several flows combined: one after the other, side by side, drawn point by point, or evenly mixed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow, flows_in
from tpack.dataflow.iterator_state import Passes, StatelessError, StateReader, close_iterator, make_state, rng_state
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError, WrongTypeError
from tpack.utils.validation import check_arguments, check_instances, check_number, shown

_EXPECTED = "a list of DataFlows; use as_dataflow to make one of a list, an array or a loader"


class FlowList(DataFlow):
    """The base of flows that wrap several flows, ``self.df_lists``, with the positions of all of them.

    A flow that is in the list several times is reset once.

    Raises:
        ConfigError: It is not a list of DataFlows, or an empty one.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        flows: list[DataFlow] = check_instances(self, "df_lists", df_lists, DataFlow, least=1, expected=_EXPECTED)
        self.df_lists = flows

    def reset_state(self) -> None:
        """Reset each flow once and forget the position."""
        DataFlow.reset_state(self)
        for ds in self._distinct():
            ds.reset_state()

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        DataFlow.end_pass(self)
        self._end_flow_passes()

    def _end_flow_passes(self) -> None:
        for ds in self._distinct():
            ds.end_pass()

    @contextmanager
    def _iterators(self, *, is_resumed: bool) -> Iterator[list[Iterator[Any]]]:
        """Return an iterator over each flow; those that can be closed are closed at the end.

        Unless resumed, the rest of broken passes is given up now: the last flow may be asked for a point much later.
        """
        if not is_resumed:
            self._end_flow_passes()
        iterators = [iter(ds) for ds in self.df_lists]
        try:
            yield iterators
        finally:
            for points in iterators:
                close_iterator(points)

    def _flow_states(self) -> list[dict[str, Any]]:
        """Return the flows' positions; raise StatelessError if one has none, or is there twice, maybe in others."""
        seen: set[int] = set()
        for ds in self.df_lists:
            inside = {id(part) for part in flows_in(ds)}
            if seen & inside:
                raise StatelessError(
                    f"{type(self).__name__} has no position: one flow is in its list twice, maybe inside others; use "
                    "a flow of its own for each place"
                )
            seen |= inside
        return [ds.state_dict() for ds in self.df_lists]

    def _load_flow_states(self, states: object) -> None:
        """Send all flows or none to positions; raise InputError if a state or their number does not fit."""
        if not isinstance(states, (list, tuple)) or len(states) != len(self.df_lists):
            name = type(self).__name__
            raise InputError(f"{name} got the states of another number of flows: expected {len(self.df_lists)}")
        before = [ds.state_dict() for ds in self.df_lists]
        done = 0
        try:
            for ds, state in zip(self.df_lists, states, strict=True):
                ds.load_state_dict(state)
                done += 1
        except InputError:
            for ds, state in zip(self.df_lists[:done], before[:done], strict=True):
                ds.load_state_dict(state)
            raise

    def _distinct(self) -> list[DataFlow]:
        """Return each flow once."""
        return list({id(ds): ds for ds in self.df_lists}.values())


@check_arguments
class ConcatData(FlowList):
    """Yield all data points of the first flow, then all of the second, and so on; refuse an empty list."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        super().__init__(df_lists)
        self._passes: Passes[int] = Passes(0)

    def __len__(self) -> int:
        return sum(map(len, self.df_lists))

    def __iter__(self) -> Iterator[Any]:
        # Broken passes of later flows must not be continued.
        for ds in self.df_lists[self._passes.next_start + 1 :]:
            ds.end_pass()
        one = self._passes.begin()
        while one.value < len(self.df_lists):
            yield from self.df_lists[one.value]
            one.value += 1
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the current flow, and the positions of all."""
        return make_state(self, which=self._passes.value, flows=self._flow_states())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "which", "flows")
        which = saved.count("which", at_most=len(self.df_lists) - 1)
        self._load_flow_states(saved["flows"])
        self._passes.go_to(which)


@check_arguments
class JoinData(FlowList):
    """Yield data points with the components of one data point of each flow; end with the shortest flow.

    Lists and tuples become one list, in the order of the flows; dicts become one dict. An empty list is refused.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        super().__init__(df_lists)
        # Whether a point was yielded, so that the passes of the flows have begun.
        self._passes: Passes[bool] = Passes(False)

    def __len__(self) -> int:
        return min(map(len, self.df_lists))

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin()
        with self._iterators(is_resumed=one.value) as iterators:
            # Not zip(strict=True): some flows may be longer.
            for number, parts in enumerate(zip(*iterators, strict=False)):
                point = _join(parts, number)
                one.value = True
                yield point
        if self._passes.end(one):
            self._end_flow_passes()

    def state_dict(self) -> dict[str, Any]:
        """Return the positions of the flows."""
        return make_state(self, flows=self._flow_states(), has_begun=self._passes.value)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "flows", "has_begun")
        has_begun = saved.flag("has_begun")
        self._load_flow_states(saved["flows"])
        self._passes.go_to(has_begun)


class _DrawnFlows(FlowList, RNGDataFlow):
    """A list of flows that takes turns by a random generator."""

    def reset_state(self) -> None:
        """Get a new generator, reset each flow once and forget the position."""
        RNGDataFlow.reset_state(self)
        FlowList.reset_state(self)


@check_arguments
class RandomChooseData(_DrawnFlows):
    """Draw a flow for each data point, and end when a drawn flow has ended; the length is not known.

    Wrap flows in ``RepeatedData(ds, -1)`` for a pass without end.

    Args:
        df_lists: the flows, which are equally likely; or pairs of a flow and its probability.

    Raises:
        ConfigError: It is neither, or the sum of the probabilities is not 1.
    """

    def __init__(self, df_lists: Sequence[DataFlow] | Sequence[tuple[DataFlow, float]]) -> None:
        flows, probabilities = _split(df_lists)
        super().__init__(flows)
        if abs(sum(probabilities) - 1) > 1e-6:
            raise ConfigError(f"RandomChooseData got probabilities with the sum {sum(probabilities):g}: expected 1")
        # Divided by the sum, so that no draw is above the last.
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
            self._end_flow_passes()

    def state_dict(self) -> dict[str, Any]:
        """Return the generator and the positions of the flows."""
        rng, flows = rng_state(self.rng), self._flow_states()
        return make_state(self, rng=rng, flows=flows, has_begun=self._passes.value)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "rng", "flows", "has_begun")
        rng, has_begun = saved.generator("rng"), saved.flag("has_begun")
        self._load_flow_states(saved["flows"])
        self.rng = rng
        self._passes.go_to(has_begun)


@check_arguments
class RandomMixData(_DrawnFlows):
    """Yield the data points of all flows, in a random order that keeps the order within each flow.

    All such orders are equally likely, so a flow of twice the length comes up twice as often from the first data point
    to the last. Each flow must have as many data points as its length says.

    Raises:
        ConfigError: It is not a list of DataFlows, or an empty one.
        UnknownLengthError: A flow does not know its length.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        super().__init__(df_lists)
        self._lengths = [len(ds) for ds in df_lists]
        self._passes: Passes[int] = Passes(0)

    def __len__(self) -> int:
        return sum(self._lengths)

    def __iter__(self) -> Iterator[Any]:
        one = self._passes.begin(self.rng)
        order = self._draw_order()
        with self._iterators(is_resumed=one.value > 0) as iterators:
            for which in order[one.value :].tolist():
                point = self._next(iterators[which], which)
                one.value += 1
                yield point
        if self._passes.end(one):
            self._end_flow_passes()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of points taken, the generator of their order, and the positions of the flows."""
        rng = self._passes.drawn_from(self.rng)
        return make_state(self, index=self._passes.value, rng=rng, flows=self._flow_states())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "index", "rng", "flows")
        index, rng = saved.count("index", at_most=len(self)), saved.generator("rng")
        self._load_flow_states(saved["flows"])
        self.rng = rng
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.give_up(self._draw_order)
        self._end_flow_passes()

    def _draw_order(self) -> np.ndarray:
        """Return the number of the flow of each data point of a pass."""
        order = np.repeat(np.arange(len(self.df_lists), dtype=np.int32), self._lengths)
        self.rng.shuffle(order)
        return order

    def _next(self, points: Iterator[Any], which: int) -> object:
        for point in points:
            return point
        raise DataExhaustedError(
            f"RandomMixData got df_lists[{which}], a {type(self.df_lists[which]).__name__} with fewer data points than "
            f"its length: expected {self._lengths[which]}"
        )


def _join(parts: Sequence[Any], number: int) -> list[Any] | dict[Any, Any]:
    if all(isinstance(part, (list, tuple)) for part in parts):
        return [component for part in parts for component in part]
    if not all(isinstance(part, Mapping) for part in parts):
        kinds = [type(part).__name__ for part in parts]
        raise DataPointError(f"data points {number} of the flows are {kinds}: expected lists and tuples, or all dicts")
    joined = {key: component for part in parts for key, component in part.items()}
    if len(joined) < sum(map(len, parts)):
        keys = [list(part) for part in parts]
        raise DataPointError(f"data points {number} of the flows have the keys {keys}: expected none in common")
    return joined


def _split(df_lists: object) -> tuple[list[Any], list[float]]:
    """Return flows and their probabilities; entries that are not pairs count as flows."""
    if not isinstance(df_lists, (list, tuple)):
        raise WrongTypeError(f"RandomChooseData got df_lists={shown(df_lists)}: expected {_EXPECTED}")
    if not df_lists:
        raise ConfigError("RandomChooseData got df_lists with 0 entries: expected at least 1")
    pairs = [entry for entry in df_lists if isinstance(entry, (list, tuple)) and len(entry) == 2]
    if not pairs:
        return list(df_lists), [1 / len(df_lists)] * len(df_lists)
    if len(pairs) < len(df_lists):
        raise ConfigError("RandomChooseData got probabilities for some of df_lists: expected them for all or none")
    names = [f"df_lists[{k}][1]" for k in range(len(pairs))]
    probabilities = [
        check_number("RandomChooseData", name, pair[1], 0, 1) for name, pair in zip(names, pairs, strict=True)
    ]
    return [ds for ds, _ in pairs], probabilities
