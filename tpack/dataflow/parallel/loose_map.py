"""Mapping in the order in which workers finish: nobody waits for anybody, and the buffer stays full between passes."""

from collections.abc import Callable, Iterator
from typing import Any

from tpack.dataflow.parallel.pool import MapPool
from tpack.dataflow.parallel.reader import Reader


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
