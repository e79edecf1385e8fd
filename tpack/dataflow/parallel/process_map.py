"""Flows that are mapped in worker processes, one point at a time or into batches.

Both ends are here. The flow itself stays in the consumer's process, where `_ProcessPool` hands its points to workers
and gets their answers. In each worker `serve_map` answers a point with what the function makes of it, `serve_batches` a
list of points with a batch. ``docs/dataflow_protocol.md`` follows a pass from its beginning to its end.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.batch import aggregate, begin_batch
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.ordering import MapPool, Result
from tpack.dataflow.parallel.sender import BuiltPoint
from tpack.dataflow.parallel.slots import Kind, PeerGoneError
from tpack.dataflow.parallel.worker import ParentLink
from tpack.dataflow.parallel.worker_group import OwnedWorkers, WorkerPool, worker_error
from tpack.errors import ConfigError
from tpack.utils.child_process import failure_of
from tpack.utils.env import usable_cores
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class MultiProcessMapData(MapFlow):
    """Map data points in processes. The flow itself stays in this one; points go to the processes and back.

    With ``strict`` the points come in the order of the flow, each pass has exactly those of a pass of the flow, and the
    position can be told. Otherwise they come as they are finished; a pass has as many as one of the flow, but
    ``buffer_size`` of them stay with the processes for the next.

    Where the function returns None, the point is dropped; with ``strict`` too, where tensorpack refuses it. An
    exception of the function comes out as a `DataWorkerError` when it is the turn of its point. A process that dies
    ends the iteration with its exit code. See `MultiProcessRunner` for how processes are started, and for the memory
    that large arrays lie in.

    Args:
        ds: the flow.
        num_proc: the number of processes; None is one for each core.
        map_func: gets a data point and returns one, or None to drop it. It is sent to the processes by cloudpickle.
        buffer_size: how many points are with the processes, or wait to be yielded.
        strict: whether the order and the passes of ``ds`` are kept.
        timeout: after how many seconds without an answer a process that has points is taken to hang; a minute more
            while it starts. None waits for ever, and the log names a process that was silent for a minute.

    Raises:
        ConfigError: The function cannot be called, a number is less than 1, or the timeout is no number.
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

    def _end_old_pool(self) -> None:
        pass

    def _start_pool(self) -> MapPool:
        share = -(-self.buffer_size // self.num_proc)
        group = self._workers.start(serve_map, (self.map_func,), count=self.num_proc, results=share, jobs=share)
        return _ProcessPool(group)


MultiProcessMapDataZMQ = MultiProcessMapData
"""The name that tensorpack had for another transport; here there is one, and it needs no ZeroMQ."""


@check_arguments
class MultiProcessMapAndBatchData(MapFlow):
    """Map data points in processes, each of which makes batches, in the memory that they are sent in.

    Each batch is made of as many data points that follow each other in the flow, by one process; with one process it is
    what ``BatchData(MapData(ds, map_func), batch_size)`` yields. Batches come as they are finished. What is left at the
    end of a pass of the flow and is too little for a batch is dropped. Where the function returns None, the point is
    dropped; its process makes up for it with points of the next batch that it makes, and there are fewer batches.
    See `MultiProcessMapData` for the rest.

    Args:
        ds: the flow.
        num_proc: the number of processes.
        map_func: gets a data point and returns one, or None to drop it. It is sent to the processes by cloudpickle.
        batch_size: the number of data points of a batch.
        buffer_size: how many data points are with the processes, or wait to be yielded in a batch; None is two
            batches for each process.
        timeout: after how many seconds without an answer a process that has points is taken to hang; a minute more
            while it starts. None waits for ever, and the log names a process that was silent for a minute.

    Raises:
        ConfigError: The function cannot be called, a number is less than 1, the timeout is no number, the buffer
            has no room for one batch for each process, or the flow is shorter than a batch.
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
            raise ConfigError(
                f"{type(self).__name__} got buffer_size={buffer_size}: expected at least num_proc * batch_size "
                f"= {least}"
            )
        self._refuse_short(ds)
        self._workers = OwnedWorkers(self, timeout)

    def _refuse_short(self, ds: DataFlow) -> None:
        length = length_or_none(ds)
        if length is not None and length < self.batch_size:
            raise ConfigError(
                f"{type(self).__name__} got batch_size={self.batch_size} and a flow of {length} data points: it would "
                "yield nothing"
            )

    def __len__(self) -> int:
        return len(self.ds) // self.batch_size

    @property
    def _num_jobs(self) -> int:
        return self.buffer_size // self.batch_size

    def _make_begin(self) -> Callable[[], Iterator[Any]]:
        return functools.partial(_groups, self.ds, self.batch_size)

    def _end_old_pool(self) -> None:
        pass

    def _start_pool(self) -> MapPool:
        share = -(-self._num_jobs // self.num_proc)
        arguments = (self.map_func, self.batch_size)
        group = self._workers.start(serve_batches, arguments, count=self.num_proc, results=share, jobs=share)
        return _ProcessPool(group)


MultiProcessMapAndBatchDataZMQ = MultiProcessMapAndBatchData
"""The name that tensorpack had for another transport; here there is one, and it needs no ZeroMQ."""


def _groups(ds: DataFlow, size: int) -> Iterator[list[Any]]:
    """Begin a pass over a flow, and yield lists of points of one length; the rest is dropped."""
    points = iter(ds)
    while len(group := list(islice(points, size))) == size:
        yield group


class _ProcessPool(MapPool):
    """A group of workers that answer each data point with one, in the order in which they get them."""

    def __init__(self, group: WorkerPool) -> None:
        self._group = group
        count = len(group.pids)
        # The tags of what each worker has to answer.
        self._tags: list[deque[Any]] = [deque() for _ in range(count)]
        # How many of these may not have been sent yet.
        self._unflushed = [0] * count
        self._results: deque[Result] = deque()
        for index in range(count):
            group.expect(index, is_expected=False)

    def submit(self, tag: object, point: object) -> bool:
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
            failed = message.kind == Kind.ERROR
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

    def _note(self, index: int, tag: object) -> None:
        """Take note that a worker has one more point to answer."""
        if not self._tags[index]:
            self._group.expect(index, is_expected=True)
        self._tags[index].append(tag)
        self._unflushed[index] += 1
        # Points may share a message while the worker has others to do.
        if 2 * self._unflushed[index] >= len(self._tags[index]):
            self._flush_one(index)

    def _try_put(self, index: int, point: object) -> bool:
        try:
            return self._group.senders[index].try_put(point)
        except PeerGoneError:
            self._group.bury(index)

    def _flush(self) -> None:
        """Send what is held back, since we are going to wait."""
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
    """Map data points for ever.

    Args:
        link: what the worker has of its owner.
        func: gets a point and returns one, or None.
    """
    _serve(link, lambda point: link.results.put(func(point)))


def serve_batches(link: ParentLink, func: Callable[[Any], Any], batch_size: int) -> None:
    """Map lists of data points for ever, and answer each with a batch; or with None, if too many were dropped for one.

    Args:
        link: what the worker has of its owner.
        func: gets a point and returns one, or None.
        batch_size: the number of points in each list and in each batch.
    """
    _serve(link, _Batcher(link, func, batch_size).answer)


def _serve(link: ParentLink, answer: Callable[[Any], None]) -> None:
    """Answer everything that comes; an exception is an answer, too."""
    while True:
        if not link.jobs.has_message:
            link.results.flush()
        # Nothing here keeps a point: the memory it lies in is to go back.
        for point in _drain(link.jobs.receive().points):
            try:
                answer(point)
            except PeerGoneError:
                raise
            except Exception as error:
                link.results.send(Kind.ERROR, failure_of(error))
            del point


def _drain(points: list[Any]) -> Iterator[Any]:
    """Yield the elements of a list, which has them no more."""
    points.reverse()
    while points:
        yield points.pop()


class _Batcher:
    """Gathers mapped points until there are enough for a batch; large arrays in the memory that it is sent in."""

    def __init__(self, link: ParentLink, func: Callable[[Any], Any], batch_size: int) -> None:
        self._results = link.results
        self._func = func
        self._batch_size = batch_size
        self._built = BuiltPoint(link.results)
        self._gathered: list[Any] = []
        # Those that were too many for the last batch.
        self._mapped: list[Any] = []

    def answer(self, points: list[Any]) -> None:
        """Send a batch, or None. An exception costs the batch that it happens in, and nothing of it comes later."""
        try:
            self._gather(points)
            if len(self._gathered) < self._batch_size:
                self._results.put(None)
                return
            gathered, self._gathered = self._gathered, []
            self._built.send(aggregate(gathered, empty=self._built.empty))
        except BaseException:
            self._forget()
            raise

    def _gather(self, points: list[Any]) -> None:
        """Map points; add to the batch what there is room for, and keep the others."""
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
            # An answer is sent for each list, when all of it is mapped.
            self._mapped.append(point)
            return
        if not self._gathered:
            self._gathered = begin_batch(point, self._batch_size, self._built.empty)
        self._gathered.append(point)

    def _forget(self) -> None:
        """Begin anew."""
        self._gathered, self._mapped = [], []
        self._built.give_up()
