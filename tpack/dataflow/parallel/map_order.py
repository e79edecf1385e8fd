"""Mapping in the order of the flow: passes are its passes, and where they are can be told.

Mapping in the order in which workers finish: nobody waits for anybody, and the buffer stays full between passes.

One pass over a flow, read one point ahead, so that a point for which there is no room now is not lost.

What a flow that maps data points asks of its workers, be they threads or processes.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from tpack.dataflow.base import DataFlow
from tpack.dataflow.parallel.position import Position, StateTaker, go_to
from tpack.dataflow.state import StatelessError


class Result(NamedTuple):
    """What a worker made of a data point.

    Attributes:
        tag: what the point was submitted with.
        point: the new data point; None if the point is dropped.
        error: the exception that the function raised, to be raised when it is the point's turn.
    """

    tag: Any
    point: Any
    error: BaseException | None


class MapPool(ABC):
    """Workers that call one function with data points."""

    @abstractmethod
    def submit(self, tag: Any, point: Any) -> bool:
        """Hand a point to a worker.

        Args:
            tag: comes back with the result.
            point: the point.

        Returns:
            False if no worker has room for it now; a result is to be received first, and there is one to come.
        """

    @abstractmethod
    def receive(self) -> Result:
        """Return the next result, in whatever order they come; wait for it. There must be one to come."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""


class Reader:
    """Reads a pass; its end and an exception are found when the point after the last is wanted.

    Args:
        points: the pass.
        when_read: called with the number of points read so far after each, and before the end is known.
    """

    def __init__(self, points: Iterator[Any], when_read: Callable[[int], None] | None = None) -> None:
        self._points = points
        self._when_read = when_read
        self._held: list[Any] = []
        self._read = 0
        self.is_over = False
        self._error: Exception | None = None

    @property
    def taken(self) -> int:
        """The number of points that were taken."""
        return self._read - len(self._held)

    def has_next(self) -> bool:
        """Tell whether there is another point, which ``next`` is then."""
        if self._held:
            return True
        if self.is_over:
            return False
        try:
            self._held.append(next(self._points))
        except StopIteration:
            self.is_over = True
            return False
        except Exception as error:
            # What was read before is to arrive before it.
            self.is_over, self._error = True, error
            return False
        self._read += 1
        if self._when_read is not None:
            self._when_read(self._read)
        return True

    @property
    def next(self) -> Any:
        """The point that ``has_next`` has found."""
        return self._held[0]

    def take(self) -> None:
        """Go on to the point after it."""
        self._held.clear()

    def pop_error(self) -> Exception | None:
        """Return the exception that ended the pass, if one did; only once, since it refers to this reader."""
        error, self._error = self._error, None
        return error


class StrictMap:
    """The passes of a mapped flow, one after the other.

    The wrapped flow is read ahead. States that it had while it was, are kept until the points after them have been
    yielded, so that the position of what was yielded is known.

    Args:
        ds: the flow, after its ``reset_state``.
        pool: the workers.
        buffer_size: how many points may be with them, or wait to be yielded.
    """

    def __init__(self, ds: DataFlow, pool: MapPool, buffer_size: int) -> None:
        self._ds = ds
        self._pool = pool
        self._buffer_size = buffer_size
        self._taker = StateTaker(ds)
        self._position: Position | None = None
        # Later positions, each with the number of points of the pass that were read when the flow was there.
        self._later: deque[tuple[int, Position]] = deque()
        self._pass_number = 0
        self._is_inside = False
        self._is_astray = False

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        reader = Reader(self._begin(), self._when_read)
        results: dict[int, Result] = {}
        yielded = 0
        while True:
            self._feed(reader, yielded)
            if reader.is_over and reader.taken == yielded:
                break
            result = results.pop(yielded, None)
            if result is None:
                result = self._pool.receive()
                # What a pass that was broken off has left with the workers comes, too.
                if result.tag[0] == self._pass_number:
                    results[result.tag[1]] = result
                continue
            yielded += 1
            self._move_to(yielded)
            if result.error is not None:
                # Nothing here may refer to the error, which refers to this frame by its traceback.
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
        self._end()

    def position(self) -> Position:
        """Return the position after the last point that was yielded.

        Raises:
            StatelessError: The flow has none.
        """
        if self._position is None and self._taker.reason is None:
            self._position = self._take()
        if self._position is None:
            raise StatelessError(f"the flow that is mapped cannot tell its position: {self._taker.reason}")
        return self._position

    def go_to(self, position: Position) -> None:
        """Let the next pass begin at a position.

        Raises:
            InputError: The state is none of the flow; nothing was changed.
        """
        self._ds.load_state_dict(position.state)
        self._position, self._is_inside, self._is_astray = position, False, True

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        if self._position is not None and self._position.skipped:
            self._position = replace(self._position, is_over=True)
            self._is_astray = True
        self._is_inside = False

    def _begin(self) -> Iterator[Any]:
        """Begin a pass of the wrapped flow where the last one of this flow has stopped."""
        if self._is_inside:
            self.end_pass()
        position = self._position
        if position is not None and self._is_astray:
            points = go_to(self._ds, self._ds, position)
            if position.is_over:
                self._position = None
        else:
            points = iter(self._ds)
        if self._position is None:
            self._position = self._take()
        self._pass_number += 1
        self._later.clear()
        self._is_inside = self._is_astray = True
        return points

    def _end(self) -> None:
        self._is_inside = self._is_astray = False
        self._position = self._take()

    def _take(self) -> Position | None:
        state = self._taker.take()
        return None if state is None else Position(state)

    def _feed(self, reader: Reader, yielded: int) -> None:
        """Hand out points until the buffer is full."""
        while reader.taken - yielded < self._buffer_size and reader.has_next():
            if not self._pool.submit((self._pass_number, reader.taken), reader.next):
                return
            reader.take()

    def _when_read(self, count: int) -> None:
        """Take note of a position, now and then."""
        if self._position is not None and self._taker.is_due():
            position = self._take()
            if position is not None:
                self._later.append((count, position))

    def _move_to(self, yielded: int) -> None:
        """Know the position after a number of points of the pass."""
        if self._position is None:
            return
        # A position in the middle is used from the first point after it on: before that point the flow cannot be told
        # to give up the pass, since a pass of which nothing was taken has not begun.
        if self._later and self._later[0][0] < yielded:
            self._position = self._later.popleft()[1]
        self._position = replace(self._position, skipped=self._position.skipped + 1)


class LooseMap:
    """One endless stream of mapped points, which passes are cut from.

    A pass has as many points as the wrapped flow had in the pass that was read last, those that the function drops
    included; it may hold points of the pass before or after.

    Args:
        begin: begins a pass of the flow.
        pool: the workers.
        buffer_size: how many points may be with them.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], pool: MapPool, buffer_size: int) -> None:
        self._begin = begin
        self._pool = pool
        self._buffer_size = buffer_size
        self._reader: Reader | None = None
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
                # Nothing here may refer to the error, which refers to this frame by its traceback.
                error: BaseException = result.error
                try:
                    raise error
                finally:
                    del error, result
            if result.point is not None:
                yield result.point

    def _feed(self) -> None:
        """Hand out points until the buffer is full; begin the next pass of the flow where one ends."""
        while self._submitted < self._buffer_size and self._error is None:
            if self._reader is None:
                self._reader = Reader(self._begin())
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
