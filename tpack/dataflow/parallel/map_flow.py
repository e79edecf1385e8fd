"""Flows that map data points in workers: their order, buffer and position, for threads and processes.

`OrderedMap` yields the passes of the wrapped flow and has a position. With `UnorderedMap` no worker waits for another,
and the buffer stays full between passes.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, ProxyDataFlow
from tpack.dataflow.checkpoint import PassTracker, Position, StateSampler, go_to
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ConfigError, InputError
from tpack.utils.validation import check_count, mismatch


class Result(NamedTuple):
    """The result of a worker for a data point: the point, None if it is dropped, or an error to raise in its place."""

    tag: Any
    point: Any
    error: BaseException | None


class MapPool(ABC):
    """Workers that call one function with data points."""

    @abstractmethod
    def submit(self, tag: object, point: object) -> bool:
        """Hand a point to a worker; its tag returns with the result.

        Return False if no worker has room now; then there is a result to receive first.
        """

    @abstractmethod
    def receive(self) -> Result:
        """Return the next result, in any order, after waiting for it; there must be a pending one."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""


class OrderedMap:
    """The passes of a mapped flow, one after the other, read ahead by ``buffer_size`` points.

    States of the flow are kept until the points after them were yielded, so that their position is known.
    """

    def __init__(self, ds: DataFlow, pool: MapPool, buffer_size: int) -> None:
        self._ds = ds
        self._pool = pool
        self._buffer_size = buffer_size
        self._sampler = StateSampler(ds)
        self._passes = PassTracker("the flow that is mapped")
        self._pass_number = 0

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        reader = _Reader(self._begin(), self._when_read)
        results: dict[int, Result] = {}
        yielded = 0
        while True:
            self._feed(reader, yielded)
            if reader.is_over and reader.taken == yielded:
                break
            result = results.pop(yielded, None)
            if result is None:
                result = self._pool.receive()
                # Results of a broken pass come, too.
                if result.tag[0] == self._pass_number:
                    results[result.tag[1]] = result
                continue
            yielded += 1
            self._passes.num_taken += 1
            if result.error is not None:
                # No reference to the error may stay here: its traceback refers to this frame.
                error = result.error
                try:
                    raise error
                finally:
                    del error, result
            if result.point is not None:
                yield result.point
        broken = reader.pop_error()
        if broken is not None:
            try:
                raise broken
            finally:
                del broken
        self._passes.end()
        self._stand_here()

    def position(self) -> Position:
        """Return the position after the last point that was yielded; raise a StatelessError if the flow has none."""
        if self._passes.position is None and self._passes.reason is None:
            self._stand_here()
        return self._passes.known_position()

    def go_to(self, position: Position) -> None:
        """Let the next pass begin at a position; raise an InputError if it is not one of the flow."""
        self._ds.load_state_dict(position.state)
        self._passes.go_to(position, is_there=False)

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        self._passes.end_pass()

    def _begin(self) -> Iterator[Any]:
        """Begin a pass of the wrapped flow where the last one of this flow has stopped."""
        self._passes.end_broken_pass()
        position = self._passes.position
        sent_to = position if self._passes.is_astray else None
        points = iter(self._ds) if sent_to is None else go_to(self._ds, sent_to)
        if position is None or position.is_over:
            self._stand_here()
        else:
            self._passes.stand_at(position)
        self._pass_number += 1
        self._passes.begin()
        return points

    def _stand_here(self) -> None:
        """Set the position to that of the wrapped flow."""
        position = self._sampler.take()
        self._passes.stand_at(position, self._sampler.reason)

    def _feed(self, reader: "_Reader", yielded: int) -> None:
        """Hand out points until the buffer is full."""
        while reader.taken - yielded < self._buffer_size and reader.has_next():
            if not self._pool.submit((self._pass_number, reader.taken), reader.next):
                return
            reader.take()

    def _when_read(self, count: int) -> None:
        """Record a position now and then."""
        if self._sampler.is_due():
            position = self._sampler.take()
            if position is not None:
                self._passes.add(count, position)


class UnorderedMap:
    """One endless stream of mapped points, from which passes are cut; ``buffer_size`` points are at the workers.

    A pass has as many points, dropped ones included, as the last pass that was read of the wrapped flow; it may hold
    points of the pass before or after.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], pool: MapPool, buffer_size: int) -> None:
        self._begin = begin
        self._pool = pool
        self._buffer_size = buffer_size
        self._reader: _Reader | None = None
        self._error: BaseException | None = None
        self._length: int | None = None
        self._submitted = 0

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        received = 0
        while True:
            self._feed()
            if received == self._length:
                return
            if self._error is not None and self._submitted == 0:
                broken, self._error = self._error, None
                try:
                    raise broken
                finally:
                    del broken
            result = self._pool.receive()
            self._submitted -= 1
            received += 1
            if result.error is not None:
                # No reference to the error may stay here: its traceback refers to this frame.
                error: BaseException = result.error
                try:
                    raise error
                finally:
                    del error, result
            if result.point is not None:
                yield result.point

    def _feed(self) -> None:
        """Hand out points until the buffer is full; begin the next pass of the flow at the end of one."""
        while self._submitted < self._buffer_size and self._error is None:
            if self._reader is None:
                self._reader = _Reader(self._begin())
            if self._reader.has_next():
                if not self._pool.submit(None, self._reader.next):
                    return
                self._reader.take()
                self._submitted += 1
                continue
            self._error = self._reader.pop_error()
            if self._error is None:
                self._length = self._reader.taken
            self._reader = None
            if self._length == 0:
                return


class _Reader:
    """Reads a pass one point ahead, to keep a point without room; ``when_read`` gets each number of points."""

    def __init__(self, points: Iterator[Any], when_read: Callable[[int], None] | None = None) -> None:
        self._points = points
        self._when_read = when_read
        self._peeked: list[Any] = []
        self._read = 0
        self.is_over = False
        self._error: Exception | None = None

    @property
    def taken(self) -> int:
        """The number of points taken."""
        return self._read - len(self._peeked)

    def has_next(self) -> bool:
        """Tell whether there is another point, then in ``next``."""
        if self._peeked:
            return True
        if self.is_over:
            return False
        try:
            self._peeked.append(next(self._points))
        except StopIteration:
            self.is_over = True
            return False
        except Exception as error:
            # It is raised after the points read before.
            self.is_over, self._error = True, error
            return False
        self._read += 1
        if self._when_read is not None:
            self._when_read(self._read)
        return True

    @property
    def next(self) -> Any:
        """The point found by ``has_next``."""
        return self._peeked[0]

    def take(self) -> None:
        """Go to the following point."""
        self._peeked.clear()

    def pop_error(self) -> Exception | None:
        """Return the exception that ended the pass, if any, once: it refers to this reader."""
        error, self._error = self._error, None
        return error


class MapFlow(ProxyDataFlow):
    """A flow whose points are mapped by workers; ``reset_state`` starts them, and the wrapped flow stays here.

    Args:
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
            raise ConfigError(mismatch(self, "map_func", map_func, "a function of one argument"))
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
        """Return the position in ``ds`` after the source of the last point; raise StatelessError if not strict."""
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
