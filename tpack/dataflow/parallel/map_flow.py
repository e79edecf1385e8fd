"""What flows that map data points in workers have in common: their arguments, the buffer, the order, the position."""

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
        buffer_size: how many points are with the workers, or wait to be yielded.
        strict: whether the order and the passes of ``ds`` are kept.

    Raises:
        ConfigError: The function cannot be called, or the buffer has no room for a point.
    """

    def __init__(self, ds: DataFlow, map_func: Callable[[Any], Any] | None, buffer_size: int, strict: bool) -> None:
        super().__init__(ds)
        self.map_func: Callable[[Any], Any] = _check_map_func(self, map_func)
        self.buffer_size = check_count(self, "buffer_size", buffer_size)
        self.strict = strict
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._pool: MapPool | None = None
        self._mapping: OrderedMap | UnorderedMap | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "_mapping": None}

    def reset_state(self) -> None:
        """Reset the wrapped flow and start the workers."""
        self._end_old_pool()
        self._mapping = None
        super().reset_state()
        self._pool = self._start_pool()
        if self.strict:
            self._mapping = OrderedMap(self.ds, self._pool, self.buffer_size)
        else:
            self._mapping = UnorderedMap(self._make_begin(), self._pool, self._num_jobs)

    @abstractmethod
    def _start_pool(self) -> MapPool:
        """Start the workers."""

    def _end_old_pool(self) -> None:
        """End the workers before others are started; one whose start does that itself has nothing to do."""
        self.close()

    @property
    def _num_jobs(self) -> int:
        """How many jobs, of one or more points, are with the workers."""
        return self.buffer_size

    def _make_begin(self) -> Callable[[], Iterator[Any]]:
        """Return a function that begins a pass of jobs, and does not refer to this flow, which would never end else."""
        return functools.partial(iter, self.ds)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: ``reset_state`` was not called, or another pass has not ended.
            DataWorkerError: A worker raised, died, or hangs.
            DataFlowTerminated: The workers have been ended.
        """
        with self._guard:
            yield from self._running().iterate()

    def close(self) -> None:
        """End the workers. They end with the flow, too, and with this process."""
        if self._pool is not None:
            self._pool.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the wrapped flow, right after what the last point that was yielded was made of.

        Raises:
            StatelessError: The order is not strict, or the wrapped flow has no position.
        """
        return self._ordered().position().state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the wrapped flow to a position.

        Raises:
            StatelessError: The order is not strict.
            InputError: The state is not one of this flow; nothing was changed.
        """
        self._ordered().go_to(Position.from_state(self, state))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; passes that are cut from a stream have no rest."""
        if isinstance(self._mapping, OrderedMap):
            self._mapping.end_pass()

    def _running(self) -> OrderedMap | UnorderedMap:
        if self._pool is not None and self._pool.is_closed:
            raise DataFlowTerminated(f"the workers of {type(self).__name__} have been ended: reset_state() starts new")
        if self._mapping is None:
            raise InputError(f"{type(self).__name__} has no workers yet: call reset_state() once before iterating it")
        return self._mapping

    def _ordered(self) -> OrderedMap:
        mapping = self._running()
        if not isinstance(mapping, OrderedMap):
            raise StatelessError(
                f"{type(self).__name__} has no position: the order of its data points depends on which worker is "
                "faster; expected strict=True"
            )
        return mapping


def _check_map_func(owner: object, map_func: object) -> Callable[[Any], Any]:
    """Return a function that is to be called with data points.

    Raises:
        ConfigError: It cannot be called.
    """
    if not callable(map_func):
        raise ConfigError(f"{type(owner).__name__} got map_func={shown(map_func)}: expected a function of one argument")
    return map_func
