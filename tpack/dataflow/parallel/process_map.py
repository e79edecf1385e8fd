"""Flows that are mapped in worker processes, one point at a time or into batches.

The flow stays in the consumer's process, where `_ProcessPool` sends its points to workers, each with a server function,
and receives results. ``docs/dataflow_protocol.md`` follows a pass from its beginning to its end.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.batch import aggregate, begin_batch
from tpack.dataflow.parallel.map_flow import MapFlow, MapPool, Result
from tpack.dataflow.parallel.sender import BuiltPoint
from tpack.dataflow.parallel.slots import PeerGoneError, Record
from tpack.dataflow.parallel.worker import ParentLink
from tpack.dataflow.parallel.worker_group import OwnedWorkers, WorkerPool, worker_error
from tpack.errors import ConfigError
from tpack.utils.child_process import failure_of
from tpack.utils.env import usable_cores
from tpack.utils.validation import check_arguments, check_count, mismatch


@check_arguments
class MultiProcessMapData(MapFlow):
    """Map data points in processes. The flow itself stays in this one; points go to the processes and back.

    With ``strict`` the points come in the order of the flow, each pass has exactly those of a pass of the flow, and
    there is a position. Otherwise they come as they are finished; a pass has as many as one of the flow, but
    ``buffer_size`` of them stay with the processes for the next.

    Where the function returns None, the point is dropped; with ``strict`` too, unlike in tensorpack. An exception of
    the function is raised as a `DataWorkerError` in place of its point. A process that dies ends the iteration with its
    exit code. See `MultiProcessRunner` for the start of processes, and for the memory of large arrays.

    Args:
        ds: the flow.
        num_proc: the number of processes; None is one for each core.
        map_func: gets a data point and returns one, or None to drop it. It is sent to the processes by cloudpickle.
        buffer_size: the number of points with the processes or waiting to be yielded.
        strict: whether the order and the passes of ``ds`` are kept.
        timeout: seconds without an answer after which a process with points counts as hanging; a minute more while it
            starts. None waits for ever, and the log names a process that was silent for a minute.

    Raises:
        ConfigError: The function cannot be called, a number is less than 1, or the timeout is not a number.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
        timeout: float | None = None,
    ) -> None:
        super().__init__(ds, map_func, buffer_size, strict)
        self.num_proc = usable_cores() if num_proc is None else check_count(self, "num_proc", num_proc)
        self._workers = OwnedWorkers(self, timeout)

    def _start_pool(self) -> MapPool:
        share = -(-self.buffer_size // self.num_proc)
        group = self._workers.start(serve_map, (self.map_func,), count=self.num_proc, results=share, jobs=share)
        return _ProcessPool(group)


MultiProcessMapDataZMQ = MultiProcessMapData
"""Tensorpack's name for another transport. Here there is one transport, without ZeroMQ."""


@check_arguments
class MultiProcessMapAndBatchData(MapFlow):
    """Map data points in processes that make batches, in the memory from which they are sent.

    A process makes each batch of consecutive data points of the flow; with one process it is that of
    ``BatchData(MapData(ds, map_func), batch_size)``. Batches come as they are finished. Points at the end of a pass
    that are too few for a batch are dropped. Where the function returns None, the point is dropped; its process fills
    up with points of its next batch, so there are fewer batches. See `MultiProcessMapData` for the rest.

    Args:
        ds: the flow.
        map_func: gets a data point and returns one, or None to drop it.
        batch_size: the number of data points of a batch.
        buffer_size: the number of data points with the processes or waiting in a batch; None is two batches for each
            process.
        timeout: see `MultiProcessMapData`.

    Raises:
        ConfigError: The function cannot be called, a number is less than 1, the timeout is not a number, the buffer has
            no room for one batch for each process, or the flow is shorter than a batch.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        batch_size: int,
        buffer_size: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        num_proc = check_count(self, "num_proc", num_proc)
        batch_size = check_count(self, "batch_size", batch_size)
        least = num_proc * batch_size
        super().__init__(ds, map_func, 2 * least if buffer_size is None else buffer_size, strict=False)
        self.num_proc = num_proc
        self.batch_size = batch_size
        if self.buffer_size < least:
            name = type(self).__name__
            raise ConfigError(mismatch(name, "buffer_size", buffer_size, f"at least num_proc * batch_size = {least}"))
        length = length_or_none(ds)
        if length is not None and length < batch_size:
            name = type(self).__name__
            raise ConfigError(f"{name} got batch_size={batch_size} and {length} data points: expected at most {length}")
        self._workers = OwnedWorkers(self, timeout)

    def __len__(self) -> int:
        return len(self.ds) // self.batch_size

    @property
    def _num_jobs(self) -> int:
        return self.buffer_size // self.batch_size

    def _make_begin(self) -> Callable[[], Iterator[Any]]:
        return functools.partial(_groups, self.ds, self.batch_size)

    def _start_pool(self) -> MapPool:
        share = -(-self._num_jobs // self.num_proc)
        arguments = (self.map_func, self.batch_size)
        group = self._workers.start(serve_batches, arguments, count=self.num_proc, results=share, jobs=share)
        return _ProcessPool(group)


MultiProcessMapAndBatchDataZMQ = MultiProcessMapAndBatchData
"""Tensorpack's name for another transport. Here there is one transport, without ZeroMQ."""


def _groups(ds: DataFlow, size: int) -> Iterator[list[Any]]:
    """Begin a pass over a flow, and yield lists of points of one length; the rest is dropped."""
    points = iter(ds)
    while len(group := list(islice(points, size))) == size:
        yield group


class _ProcessPool(MapPool):
    """Workers that answer each data point with one, in the order of the points that they get."""

    def __init__(self, group: WorkerPool) -> None:
        self._group = group
        count = len(group.pids)
        # The tags of the points that each worker has to answer.
        self._tags: list[deque[Any]] = [deque() for _ in range(count)]
        # How many of these may not have been sent yet.
        self._unflushed = [0] * count
        self._results: deque[Result] = deque()
        for index in range(count):
            group.expect(index, is_expected=False)

    def submit(self, tag: object, point: object) -> bool:
        """Hand a point to the worker with the fewest; return False if none has room and results are pending."""
        by_load = sorted(range(len(self._tags)), key=lambda index: len(self._tags[index]))
        while True:
            for index in by_load:
                if self._try_put(index, point):
                    if not self._tags[index]:
                        self._group.expect(index, is_expected=True)
                    self._tags[index].append(tag)
                    self._unflushed[index] += 1
                    # Points may share a message while the worker has others.
                    if 2 * self._unflushed[index] >= len(self._tags[index]):
                        self._flush_one(index)
                    return True
            if any(self._tags) or self._results:
                return False
            # It has answered all points, so it will soon make room.
            self._flush()
            self._group.wait_for_room(by_load[0])

    def receive(self) -> Result:
        """Return the next result; raise a DataWorkerError if a worker is dead or hangs."""
        while not self._results:
            self._flush()
            index, message = self._group.receive()
            failed = message.kind == Record.ERROR
            error = worker_error(self._group.name_of(index), message.points[0]) if failed else None
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

    def _try_put(self, index: int, point: object) -> bool:
        try:
            return self._group.senders[index].try_put(point)
        except PeerGoneError:
            self._group.bury(index)

    def _flush(self) -> None:
        """Send all points, before waiting."""
        for index, count in enumerate(self._unflushed):
            if count:
                self._flush_one(index)

    def _flush_one(self, index: int) -> None:
        self._unflushed[index] = 0
        try:
            self._group.senders[index].flush()
        except PeerGoneError:
            self._group.bury(index)


def serve_map(link: ParentLink, func: Callable[[Any], Any]) -> None:
    """Map data points for ever; a result of None drops the point."""
    _serve(link, lambda point: link.results.put(func(point)))


def serve_batches(link: ParentLink, func: Callable[[Any], Any], batch_size: int) -> None:
    """Map lists of data points for ever, and answer each with a batch; or with None, if too many were dropped."""
    _serve(link, _Batcher(link, func, batch_size).answer)


def _serve(link: ParentLink, answer: Callable[[Any], None]) -> None:
    """Answer each point; the answer may be an exception."""
    while True:
        if not link.jobs.has_message:
            link.results.flush()
        points = link.jobs.receive().points
        points.reverse()
        while points:
            # No reference to a point stays here: its memory goes back.
            try:
                answer(points.pop())
            except PeerGoneError:
                raise
            except Exception as error:
                link.results.send(Record.ERROR, failure_of(error))


class _Batcher:
    """Gathers mapped points until there are enough for a batch; large arrays in the memory from which they are sent."""

    def __init__(self, link: ParentLink, func: Callable[[Any], Any], batch_size: int) -> None:
        self._results = link.results
        self._func = func
        self._batch_size = batch_size
        self._built = BuiltPoint(link.results)
        self._gathered: list[Any] = []
        # Points without room in the last batch.
        self._mapped: list[Any] = []

    def answer(self, points: list[Any]) -> None:
        """Send a batch, or None. An exception costs its batch, of which nothing comes later."""
        try:
            self._gather(points)
            if len(self._gathered) < self._batch_size:
                self._results.put(None)
                return
            gathered, self._gathered = self._gathered, []
            self._built.send(aggregate(gathered, empty=self._built.empty))
        except BaseException:
            self._gathered, self._mapped = [], []
            self._built.give_up()
            raise

    def _gather(self, points: list[Any]) -> None:
        """Map points; add them to the batch while there is room, and keep the others."""
        mapped, self._mapped = self._mapped, []
        for point in mapped:
            self._add(point)
        del mapped
        for point in points:
            one = self._func(point)
            if one is not None:
                self._add(one)

    def _add(self, point: Any) -> None:
        if len(self._gathered) == self._batch_size:
            # An answer is sent for each list, when all its points are mapped.
            self._mapped.append(point)
            return
        if not self._gathered:
            self._gathered = begin_batch(point, self._batch_size, self._built.empty)
        self._gathered.append(point)
