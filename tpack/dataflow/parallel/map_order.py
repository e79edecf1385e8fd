"""Mapping in the order of the flow: passes are its passes, and where they are can be told."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.parallel.pool import MapPool, Result
from tpack.dataflow.parallel.position import Position, StateTaker, go_to
from tpack.dataflow.parallel.reader import Reader
from tpack.dataflow.state import StatelessError


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
