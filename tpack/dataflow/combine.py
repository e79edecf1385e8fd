"""What the flows that combine several flows share: the list of them, and their positions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.passes import leave
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError, InputError


class FlowList(DataFlow):
    """The base of flows that wrap several flows, ``self.df_lists``."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        """Wrap flows.

        Args:
            df_lists: the flows, at least one. One that stands there more than once is reset once.

        Raises:
            ConfigError: It is no list of DataFlows, or an empty one.
        """
        kind = type(self).__name__
        if not isinstance(df_lists, (list, tuple)) or not df_lists:
            raise ConfigError(f"{kind} got {df_lists!r:.100}: wanted a list of at least one DataFlow")
        for place, ds in enumerate(df_lists):
            if not isinstance(ds, DataFlow):
                raise ConfigError(f"{kind} got a {type(ds).__name__} at place {place}: wanted a DataFlow")
        self.df_lists = list(df_lists)

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
                leave(points)

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
                    "maybe inside others; wanted flows of their own"
                )
            seen |= inside
        return [ds.state_dict() for ds in self.df_lists]

    def _load_flow_states(self, states: Any) -> None:
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


def _parts(ds: DataFlow) -> Iterator[DataFlow]:
    """Yield a flow and all that it wraps."""
    yield ds
    inside = [getattr(ds, "ds", None), *getattr(ds, "df_lists", ())]
    for part in inside:
        if isinstance(part, DataFlow):
            yield from _parts(part)
