"""Several flows made one: one after the other, side by side, drawn point by point, or evenly mixed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow
from tpack.dataflow.iterator_state import Passes, StatelessError, StateReader, close_iterator, make_state, rng_state
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError, WrongTypeError
from tpack.utils.validation import check_arguments, check_instances, check_number, shown

_WANTED = "a list of DataFlows; as_dataflow makes one of a list, an array or a loader"


class FlowList(DataFlow):
    """The base of flows that wrap several flows, ``self.df_lists``, and tell the positions of all of them.

    Args:
        df_lists: the flows, at least one. One that stands there more than once is reset once.

    Raises:
        ConfigError: It is not a list of DataFlows, or an empty one.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        flows: list[DataFlow] = check_instances(self, "df_lists", df_lists, DataFlow, least=1, expected=_WANTED)
        self.df_lists = flows

    def reset_state(self) -> None:
        """Reset each flow once."""
        for ds in self._distinct():
            ds.reset_state()

    def end_pass(self) -> None:
        """Give up the rest of the newest pass of each flow."""
        for ds in self._distinct():
            ds.end_pass()

    @contextmanager
    def _iterators(self, *, is_resumed: bool) -> Iterator[list[Iterator[Any]]]:
        """Give an iterator over each flow, and close those that can be closed.

        Args:
            is_resumed: whether the flows were sent to positions. Otherwise what is left of passes that were broken off
                is given up first, since it may take long until the last of the flows is asked for its first point.
        """
        if not is_resumed:
            FlowList.end_pass(self)
        iterators = [iter(ds) for ds in self.df_lists]
        try:
            yield iterators
        finally:
            for points in iterators:
                close_iterator(points)

    def _flow_states(self) -> list[dict[str, Any]]:
        """Return the positions of the flows.

        Raises:
            StatelessError: A flow cannot tell its position, or stands in the list twice, by itself or inside others.
        """
        seen: set[int] = set()
        for ds in self.df_lists:
            inside = {id(part) for part in _parts(ds)}
            if seen & inside:
                raise StatelessError(
                    f"{type(self).__name__} cannot tell its position: one flow stands in its list more than once, "
                    "maybe inside others; expected flows of their own"
                )
            seen |= inside
        return [ds.state_dict() for ds in self.df_lists]

    def _load_flow_states(self, states: object) -> None:
        """Send the flows to positions, all of them or none.

        Raises:
            InputError: A state is of another kind of flow, or there are more or less of them than flows.
        """
        if not isinstance(states, (list, tuple)) or len(states) != len(self.df_lists):
            raise InputError(
                f"{type(self).__name__} has {len(self.df_lists)} flows, and got the state of another number of them"
            )
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
    """Yield all data points of the first flow, then all of the second, and so on.

    Args:
        df_lists: the flows.

    Raises:
        ConfigError: It is not a list of DataFlows, or an empty one.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
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
        saved = StateReader(self, state, "which", "flows")
        which = saved.count("which", at_most=len(self.df_lists) - 1)
        self._load_flow_states(saved["flows"])
        self._passes.go_to(which)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()


@check_arguments
class JoinData(FlowList):
    """Yield data points with the components of one data point of each flow; end when the first flow ends.

    Lists and tuples become one list, in the order of the flows; dicts become one dict.

    Args:
        df_lists: the flows.

    Raises:
        ConfigError: It is not a list of DataFlows, or an empty one.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
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
        saved = StateReader(self, state, "flows", "has_begun")
        has_begun = saved.flag("has_begun")
        self._load_flow_states(saved["flows"])
        self._passes.go_to(has_begun)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()


@check_arguments
class RandomChooseData(FlowList, RNGDataFlow):
    """Draw a flow for each data point, and end when the flow that was drawn has ended.

    The length is not known. Wrap flows in ``RepeatedData(ds, -1)`` to never end.

    Args:
        df_lists: the flows, which are equally likely; or pairs of a flow and its probability.

    Raises:
        ConfigError: It is neither, or the probabilities do not sum up to 1.
    """

    def __init__(self, df_lists: Sequence[DataFlow] | Sequence[tuple[DataFlow, float]]) -> None:
        flows, probabilities = _split(df_lists)
        super().__init__(flows)
        if abs(sum(probabilities) - 1) > 1e-6:
            raise ConfigError(
                f"RandomChooseData got df_lists with probabilities that are {sum(probabilities):g} together: expected 1"
            )
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
        saved = StateReader(self, state, "rng", "flows", "has_begun")
        rng, has_begun = saved.generator("rng"), saved.flag("has_begun")
        self._load_flow_states(saved["flows"])
        self.rng = rng
        self._passes.go_to(has_begun)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        super().end_pass()


@check_arguments
class RandomMixData(FlowList, RNGDataFlow):
    """Yield the data points of all flows, in a random order that keeps the order of those of one flow.

    Every such order is as likely as any other, so that a flow of twice the length comes up twice as often from the
    first data point to the last. Each flow must yield as many data points as its length says.

    Args:
        df_lists: the flows, each of known length.

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
        """Begin a pass.

        Raises:
            DataExhaustedError: A flow ended before its length.
        """
        one = self._passes.begin(self.rng)
        order = self._draw_order()
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
        rng = self._passes.drawn_from(self.rng)
        return make_state(self, index=self._passes.value, rng=rng, flows=self._flow_states())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind or number of flows; nothing was changed.
        """
        saved = StateReader(self, state, "index", "rng", "flows")
        index, rng = saved.count("index", at_most=len(self)), saved.generator("rng")
        self._load_flow_states(saved["flows"])
        self.rng = rng
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.give_up(self._draw_order)
        super().end_pass()

    def _draw_order(self) -> np.ndarray:
        """Return which flow each data point of a pass is from."""
        order = np.repeat(np.arange(len(self.df_lists), dtype=np.int32), self._lengths)
        self.rng.shuffle(order)
        return order

    def _next(self, points: Iterator[Any], which: int) -> object:
        """Return the next data point of a flow."""
        for point in points:
            return point
        raise DataExhaustedError(
            f"RandomMixData: the {type(self.df_lists[which]).__name__} at place {which} ended before the "
            f"{self._lengths[which]} data points that its length promised"
        )


def _parts(ds: DataFlow) -> Iterator[DataFlow]:
    """Yield a flow and all that it wraps."""
    yield ds
    inside = [getattr(ds, "ds", None), *getattr(ds, "df_lists", ())]
    for part in inside:
        if isinstance(part, DataFlow):
            yield from _parts(part)


def _join(parts: Sequence[Any], number: int) -> list[Any] | dict[Any, Any]:
    """Make one data point of several."""
    if all(isinstance(part, (list, tuple)) for part in parts):
        return [component for part in parts for component in part]
    if not all(isinstance(part, Mapping) for part in parts):
        kinds = [type(part).__name__ for part in parts]
        raise DataPointError(
            f"data points {number} of the flows are {kinds}: expected lists and tuples, or dicts alone"
        )
    joined = {key: component for part in parts for key, component in part.items()}
    if len(joined) < sum(map(len, parts)):
        raise DataPointError(f"data points {number} of the flows have keys in common: {[list(part) for part in parts]}")
    return joined


def _split(df_lists: object) -> tuple[list[Any], list[float]]:
    """Return flows and their probabilities; what is neither a flow nor a pair is taken for a flow."""
    if not isinstance(df_lists, (list, tuple)):
        raise WrongTypeError(f"RandomChooseData got df_lists={shown(df_lists)}: expected {_WANTED}")
    if not df_lists:
        raise ConfigError("RandomChooseData got df_lists with 0 entries: expected at least 1")
    pairs = [entry for entry in df_lists if isinstance(entry, (list, tuple)) and len(entry) == 2]
    if not pairs:
        return list(df_lists), [1 / len(df_lists)] * len(df_lists)
    if len(pairs) < len(df_lists):
        raise ConfigError("RandomChooseData got df_lists with and without probabilities: expected them for all or none")
    names = [f"df_lists[{k}][1]" for k in range(len(pairs))]
    probabilities = [
        check_number("RandomChooseData", name, pair[1], 0, 1) for name, pair in zip(names, pairs, strict=True)
    ]
    return [ds for ds, _ in pairs], probabilities
