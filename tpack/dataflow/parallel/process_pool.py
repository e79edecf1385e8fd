"""Processes that map data points."""

from collections import deque
from typing import Any

from tpack.dataflow.parallel.pool import MapPool, Result
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.group import WorkerGroup
from tpack.errors import DataWorkerError


class ProcessPool(MapPool):
    """A group of workers that answer each data point with one, in the order in which they get them."""

    def __init__(self, group: WorkerGroup) -> None:
        """Use a group that runs ``serve_map`` or ``serve_batches``."""
        self._group = group
        count = len(group.pids)
        # The tags of what each worker has to answer.
        self._tags: list[deque[Any]] = [deque() for _ in range(count)]
        # How many of these are held back here.
        self._held = [0] * count
        self._results: deque[Result] = deque()
        for index in range(count):
            group.expect(index, is_expected=False)

    def submit(self, tag: Any, point: Any) -> bool:
        """Hand a point to the worker with the fewest; return False if none has room and results are to come.

        Raises:
            DataWorkerError: A worker is dead.
            DataPointError: The point cannot be pickled.
        """
        by_load = sorted(range(len(self._tags)), key=lambda index: len(self._tags[index]))
        while True:
            for index in by_load:
                if self._try_put(index, point):
                    self._note(index, tag)
                    return True
            if any(self._tags) or self._results:
                return False
            # It has answered everything, so it is about to read what is in its way.
            self._flush()
            self._group.wait_for_room(by_load[0])

    def receive(self) -> Result:
        """Return the next result.

        Raises:
            DataWorkerError: A worker is dead, or hangs.
        """
        while not self._results:
            self._flush()
            index, message = self._group.receive()
            error = self._error_of(index, message.points[0]) if message.kind == Kind.ERROR else None
            for point in message.points:
                self._results.append(Result(self._tags[index].popleft(), None if error else point, error))
            if not self._tags[index]:
                self._group.expect(index, is_expected=False)
        return self._results.popleft()

    @property
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""
        return self._group.is_closed

    def close(self) -> None:
        """End the workers."""
        self._group.close()

    def _note(self, index: int, tag: Any) -> None:
        """Take note that a worker has one more point to answer."""
        if not self._tags[index]:
            self._group.expect(index, is_expected=True)
        self._tags[index].append(tag)
        self._held[index] += 1
        # Points may share a message while the worker has others to do.
        if 2 * self._held[index] >= len(self._tags[index]):
            self._flush_one(index)

    def _try_put(self, index: int, point: Any) -> bool:
        try:
            return self._group.senders[index].try_put(point)
        except PeerGoneError:
            self._group.bury(index)

    def _flush(self) -> None:
        """Send what is held back, since we are going to wait."""
        for index, held in enumerate(self._held):
            if held:
                self._flush_one(index)

    def _flush_one(self, index: int) -> None:
        self._held[index] = 0
        try:
            self._group.senders[index].flush()
        except PeerGoneError:
            self._group.bury(index)

    def _error_of(self, index: int, failure: Any) -> DataWorkerError:
        return failure.error(self._group.name_of(index))
