"""The common part of flows that map data points in workers: arguments, buffer, order, position."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, ProxyDataFlow
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.ordering import MapPool, OrderedMap, UnorderedMap
from tpack.errors import ConfigError, InputError
from tpack.utils.validation import check_count, shown


class MapFlow(ProxyDataFlow):
    """A flow whose points are mapped by workers; ``reset_state`` starts them.

    Args:
        ds: the flow; it stays in this process.
        map_func: gets a data point and returns one, or None to drop it.
        buffer_size: the number of points with the workers or waiting to be yielded.
        strict: whether the order and the passes of ``ds`` are kept.

    Raises:
        ConfigError: The function cannot be called, or the buffer has no room for a point.
    """

    reads_ahead = True

    def __init__(self, ds: DataFlow, map_func: Callable[[Any], Any] | None, buffer_size: int, strict: bool) -> None:
        super().__init__(ds)
        if not callable(map_func):
            raise ConfigError(
                f"{type(self).__name__} got map_func={shown(map_func)}: expected a function of one argument"
            )
        self.map_func: Callable[[Any], Any] = map_func
        self.buffer_size = check_count(self, "buffer_size", buffer_size)
        self.strict = strict
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._pool: MapPool | None = None
        self._mapping: OrderedMap | UnorderedMap | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "_mapping": None}

    def reset_state(self) -> None:
        """Reset the wrapped flow and start the workers."""
        self._mapping = None
        super().reset_state()
        self._pool = self._start_pool()
        if self.strict:
            self._mapping = OrderedMap(self.ds, self._pool, self.buffer_size)
        else:
            self._mapping = UnorderedMap(self._make_begin(), self._pool, self._num_jobs)

    @abstractmethod
    def _start_pool(self) -> MapPool:
        """End the workers that there are, and start new ones."""

    @property
    def _num_jobs(self) -> int:
        """The number of jobs, of one or more points, with the workers."""
        return self.buffer_size

    def _make_begin(self) -> Callable[[], Iterator[Any]]:
        """Return a function that begins a pass of jobs. It has no reference to this flow, which would keep it alive."""
        return functools.partial(iter, self.ds)

    def __iter__(self) -> Iterator[Any]:
        with self._guard:
            yield from self._running().iterate()

    def close(self) -> None:
        """End the workers. They end with the flow and with this process, too."""
        if self._pool is not None:
            self._pool.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the wrapped flow right after the source of the last point that was yielded.

        Raises:
            StatelessError: The order is not strict, or the wrapped flow has no position.
        """
        return self._ordered().position().state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position; a StatelessError if the order is not strict."""
        self._ordered().go_to(Position.from_state(self, state))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass, if the order is strict."""
        if isinstance(self._mapping, OrderedMap):
            self._mapping.end_pass()

    def _running(self) -> OrderedMap | UnorderedMap:
        if self._pool is not None and self._pool.is_closed:
            raise DataFlowTerminated(f"the workers of {type(self).__name__} were ended: use reset_state() to start new")
        if self._mapping is None:
            raise InputError(f"{type(self).__name__} has no workers yet: call reset_state() once before iterating it")
        return self._mapping

    def _ordered(self) -> OrderedMap:
        mapping = self._running()
        if not isinstance(mapping, OrderedMap):
            raise StatelessError(
                f"{type(self).__name__} has no position, since its order depends on the speed of workers: use "
                "strict=True"
            )
        return mapping
