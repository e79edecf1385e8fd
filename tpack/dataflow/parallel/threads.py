"""Flows that are mapped in threads, or that each run in a thread, as one.

The threads and the flow talk through queues that can be closed, which wakes everyone who waits on one: the threads end
with the flow, whatever they wait for. They know the queues and not their owner, so that it can be garbage collected.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, length_or_none
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.ordering import MapPool, Result
from tpack.errors import ConfigError, DataWorkerError, InputError
from tpack.utils.env import usable_cores
from tpack.utils.validation import check_arguments, check_count, check_instance

_Item = TypeVar("_Item")


# More is a mistake, or another number in the wrong place.
_MOST_THREADS = 10_000


@check_arguments
class MultiThreadMapData(MapFlow):
    """Map data points in threads: for functions that wait, or that work without Python's lock, as OpenCV's do.

    With ``strict`` the points come in the order of the flow, each pass has exactly those of a pass of the flow, and the
    position can be told. Otherwise they come as they are finished; a pass has as many as one of the flow, but
    ``buffer_size`` of them stay with the threads for the next.

    Where the function returns None, the point is dropped; with ``strict`` too, where tensorpack refuses it. An
    exception of the function comes out as a `DataWorkerError` when it is the turn of its point.

    Args:
        ds: the flow.
        num_thread: the number of threads; None is one for each core.
        map_func: gets a data point and returns one, or None to drop it. Called in several threads at a time.
        buffer_size: how many points are with the threads, or wait to be yielded.
        strict: whether the order and the passes of ``ds`` are kept.

    Raises:
        ConfigError: The function cannot be called, or a number is less than 1.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_thread: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        super().__init__(ds, map_func, buffer_size, strict)
        self.num_thread = (
            usable_cores() if num_thread is None else check_count(self, "num_thread", num_thread, maximum=_MOST_THREADS)
        )

    def _start_pool(self) -> MapPool:
        return _ThreadPool(type(self).__name__, self.map_func, self.num_thread)


@check_arguments
class MultiThreadRunner(DataFlow):
    """Iterate flows in threads, and yield what comes: for flows that wait, as those that read from a network do.

    The function is called once for each thread, and must not give the same flow twice: each thread iterates its own.
    If the flow knows its length, passes are cut from the mixture: each has that length, and the next goes on where it
    stopped. Otherwise, and with one thread, a pass is one pass of each thread. An exception in a thread comes out as a
    `DataWorkerError`; its flow is begun anew in the next pass.

    Args:
        get_df: makes a flow.
        num_prefetch: how many data points may wait, of all threads.
        num_thread: the number of threads.

    Raises:
        ConfigError: A number is less than 1, or ``get_df`` gives no flow, or one twice.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        self.num_prefetch = check_count(self, "num_prefetch", num_prefetch)
        self.num_thread = check_count(self, "num_thread", num_thread, maximum=_MOST_THREADS)
        self.flows = [get_df() for _ in range(self.num_thread)]
        for ds in self.flows:
            check_instance(self, "get_df()", ds, DataFlow, "a new DataFlow each time")
        if len(set(map(id, self.flows))) < self.num_thread:
            raise ConfigError(f"{type(self).__name__} got a get_df that returned one flow again: expected new ones")
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._crew: _ThreadCrew | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None}

    def __len__(self) -> int:
        return len(self.flows[0])

    def reset_state(self) -> None:
        """Reset the flows and start the threads."""
        self.close()
        for ds in self.flows:
            ds.reset_state()
        length = length_or_none(self.flows[0]) if self.num_thread > 1 else None
        self._crew = _ThreadCrew(type(self).__name__, self.flows, self.num_prefetch, length)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: ``reset_state`` was not called, or another pass has not ended.
            DataWorkerError: A thread raised.
            DataFlowTerminated: The threads have been ended.
        """
        with self._guard:
            if self._crew is None:
                raise InputError(f"{type(self).__name__} has no threads yet: call reset_state() once before iterating")
            yield from self._crew.iterate()

    def close(self) -> None:
        """End the threads, each when its flow has given the point that it is at. They end with this flow, too."""
        if self._crew is not None:
            self._crew.close()

    def state_dict(self) -> dict[str, Any]:
        """Refuse: the order of the points depends on which thread is faster.

        Raises:
            StatelessError: Always.
        """
        raise StatelessError(
            f"{type(self).__name__} has no position: its threads run ahead, and the order of their data points depends "
            "on which is faster"
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse, as ``state_dict`` does.

        Raises:
            StatelessError: Always.
        """
        self.state_dict()


class _MailboxClosedError(DataFlowTerminated):
    """The mailbox was closed, since the flow that its threads work for has ended."""


class _Mailbox(Generic[_Item]):
    """A queue between threads that can be closed; it holds up to a number of items, in their order.

    Args:
        capacity: how many items there is room for; None is for any number.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._items: deque[_Item] = deque()
        self._is_closed = False
        lock = threading.Lock()
        self._not_empty = threading.Condition(lock)
        self._not_full = threading.Condition(lock)

    def put(self, item: _Item) -> None:
        """Add an item; wait for room.

        Raises:
            DataFlowTerminated: The mailbox is closed.
        """
        with self._not_full:
            self._not_full.wait_for(lambda: self._is_closed or not self._is_full)
            self._check_open()
            self._items.append(item)
            self._not_empty.notify()

    def get(self) -> _Item:
        """Take the first item; wait for one.

        Raises:
            DataFlowTerminated: The mailbox is closed.
        """
        with self._not_empty:
            self._not_empty.wait_for(lambda: self._is_closed or self._items)
            self._check_open()
            self._not_full.notify()
            return self._items.popleft()

    def close(self) -> None:
        """Drop everything, and wake all who wait."""
        with self._not_empty:
            self._is_closed = True
            self._items.clear()
            self._not_empty.notify_all()
            self._not_full.notify_all()

    @property
    def has_items(self) -> bool:
        """Whether there is something in it."""
        return bool(self._items)

    @property
    def _is_full(self) -> bool:
        return self._capacity is not None and len(self._items) >= self._capacity

    def _check_open(self) -> None:
        if self._is_closed:
            raise _MailboxClosedError("the workers have been ended: reset_state() starts new ones")


def _close(*mailboxes: _Mailbox[Any]) -> None:
    for mailbox in mailboxes:
        mailbox.close()


class _ThreadPool(MapPool):
    """Threads that run until the pool is closed or garbage collected.

    Args:
        owner: whose threads they are, for their names.
        func: the function that they call.
        count: how many threads.
    """

    def __init__(self, owner: str, func: Callable[[Any], Any], count: int) -> None:
        self._jobs: _Mailbox[tuple[Any, Any]] = _Mailbox()
        self._results: _Mailbox[Result] = _Mailbox()
        # The threads know the mailboxes and not the pool, so that it can be garbage collected.
        self._finalizer = weakref.finalize(self, _close, self._jobs, self._results)
        for index in range(count):
            name = f"{owner}-{index}"
            arguments = (name, func, self._jobs, self._results)
            threading.Thread(target=_work, args=arguments, name=name, daemon=True).start()

    def submit(self, tag: object, point: object) -> bool:
        """Hand a point to a thread."""
        self._jobs.put((tag, point))
        return True

    def receive(self) -> Result:
        """Return the next result."""
        return self._results.get()

    @property
    def is_closed(self) -> bool:
        """Whether the threads have been ended."""
        return not self._finalizer.alive

    def close(self) -> None:
        """End the threads, each after the point it is at."""
        self._finalizer()


def _work(name: str, func: Callable[[Any], Any], jobs: _Mailbox[tuple[Any, Any]], results: _Mailbox[Result]) -> None:
    """Be a thread of the pool."""
    while True:
        try:
            tag, point = jobs.get()
            results.put(_map(name, func, tag, point))
            # Nothing shall live on in a thread that waits.
            del tag, point
        except _MailboxClosedError:
            return


def _map(name: str, func: Callable[[Any], Any], tag: object, point: object) -> Result:
    try:
        return Result(tag, func(point), None)
    except BaseException as error:
        return Result(tag, None, _failure(name, error))


def _failure(name: str, error: BaseException) -> DataWorkerError:
    """Return an error to be raised in another thread. It is made here, since the traceback of its cause goes there."""
    failure = DataWorkerError(f"thread {name} raised {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


class _Given(NamedTuple):
    """What a thread has given: a data point, the end of its pass, or an exception."""

    thread: int
    number: int
    kind: Literal["point", "end", "error"]
    value: Any


class _ThreadCrew:
    """Threads that each iterate a flow, until the crew is closed or garbage collected.

    Each pass of a thread has a number, which the thread is told when it may begin. What comes from an earlier one is
    dropped. With a known length the threads go on by themselves, and passes are cut from what they give.

    Args:
        owner: whose threads they are, for their names.
        flows: the flows, after their ``reset_state``; one for each thread.
        num_prefetch: how many points may wait.
        length: of a pass; None if a pass is one pass of each flow.
    """

    def __init__(self, owner: str, flows: Sequence[DataFlow], num_prefetch: int, length: int | None) -> None:
        self._length = length
        self._given: _Mailbox[_Given] = _Mailbox(num_prefetch)
        self._orders: list[_Mailbox[int]] = [_Mailbox() for _ in flows]
        self._names = [f"{owner}-{index}" for index in range(len(flows))]
        # The threads know the mailboxes and not the crew, so that it can be garbage collected.
        self._finalizer = weakref.finalize(self, _close, self._given, *self._orders)
        # The number of the pass that each thread shall be at; and the threads that wait to be told.
        self._wanted = [0] * len(flows)
        self._idle = set(range(len(flows)))
        for index, (ds, orders) in enumerate(zip(flows, self._orders, strict=True)):
            worker = _Worker(index, ds, orders, self._given, goes_on=length is not None)
            threading.Thread(target=worker.run, name=self._names[index], daemon=True).start()

    def iterate(self) -> Iterator[Any]:
        """Yield a pass.

        Raises:
            DataWorkerError: A thread raised.
            DataFlowTerminated: The crew is closed.
        """
        running = set(range(len(self._orders)))
        self._order(running if self._length is None else self._idle)
        taken = 0
        while taken != self._length and running:
            index, number, kind, value = self._given.get()
            if number != self._wanted[index]:
                continue
            if kind == "error":
                self._idle.add(index)
                raise DataWorkerError(f"thread {self._names[index]} raised {type(value).__name__}: {value}") from value
            if kind == "point":
                taken += 1
                yield value
            elif self._length is None:
                running.discard(index)

    def close(self) -> None:
        """End the threads, each after the point it is at."""
        self._finalizer()

    def _order(self, indices: set[int]) -> None:
        """Let threads begin a pass."""
        for index in sorted(indices):
            self._wanted[index] += 1
            self._orders[index].put(self._wanted[index])
        self._idle.clear()


class _Worker:
    """What one thread does."""

    def __init__(
        self, index: int, ds: DataFlow, orders: _Mailbox[int], given: _Mailbox[_Given], *, goes_on: bool
    ) -> None:
        self._index = index
        self._ds = ds
        self._orders = orders
        self._given = given
        self._goes_on = goes_on

    def run(self) -> None:
        """Give passes until the mailboxes are closed."""
        try:
            number = self._orders.get()
            while True:
                number = self._run_pass(number)
        except _MailboxClosedError:
            return

    def _run_pass(self, number: int) -> int:
        """Give a pass; return the number of the next one."""
        try:
            for point in self._ds:
                if self._orders.has_items:
                    return self._orders.get()
                self._given.put(_Given(self._index, number, "point", point))
        except _MailboxClosedError:
            raise
        except BaseException as error:
            self._given.put(_Given(self._index, number, "error", error))
            return self._orders.get()
        self._given.put(_Given(self._index, number, "end", None))
        return number if self._goes_on else self._orders.get()
