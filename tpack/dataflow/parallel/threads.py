"""Threads that map data points or iterate flows.

Queues that can be closed connect them to the flow and wake all that wait; their owner can be garbage collected.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, length_or_none
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.map_flow import MapFlow, MapPool, Result
from tpack.errors import ConfigError, DataWorkerError, InputError
from tpack.utils.env import usable_cores
from tpack.utils.validation import check_arguments, check_count, check_instance

_Item = TypeVar("_Item")


# More is a mistake, such as another number in the wrong place.
_MOST_THREADS = 10_000


@check_arguments
class MultiThreadMapData(MapFlow):
    """Map data points in threads: for functions that wait, or that release Python's lock, as OpenCV's do.

    Order, passes, dropped points and exceptions are those of `MultiProcessMapData`.

    Args:
        ds: the flow.
        num_thread: the number of threads; None is one for each core.
        map_func: gets a data point and returns one, or None to drop it. Called in several threads at a time.
        buffer_size: the number of points with the threads or waiting to be yielded.
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
        self.close()
        return _ThreadPool(type(self).__name__, self.map_func, self.num_thread)


@check_arguments
class MultiThreadRunner(DataFlow):
    """Iterate flows in threads, and yield points as they come: for flows that wait, such as those of a network.

    The function is called once for each thread and must return a new flow. If the flow knows its length, passes of that
    length are cut from the mixture, each from where the last one stopped. Otherwise, and with one thread, a pass is one
    pass of each thread. An exception in a thread is raised as a `DataWorkerError`; its flow begins again in the next
    pass.

    Args:
        get_df: makes a flow.
        num_prefetch: the number of waiting data points of all threads.
        num_thread: the number of threads.

    Raises:
        ConfigError: A number is less than 1, or ``get_df`` returns no flow, or the same again.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        self.num_prefetch = check_count(self, "num_prefetch", num_prefetch)
        self.num_thread = check_count(self, "num_thread", num_thread, maximum=_MOST_THREADS)
        self.flows = [get_df() for _ in range(self.num_thread)]
        for ds in self.flows:
            check_instance(self, "get_df()", ds, DataFlow, "a new DataFlow each time")
        if len(set(map(id, self.flows))) < self.num_thread:
            raise ConfigError(f"{type(self).__name__} got the same flow from get_df again: expected a new one")
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
            DataFlowTerminated: The threads have been ended.
        """
        with self._guard:
            if self._crew is None:
                raise InputError(f"{type(self).__name__} has no threads yet: call reset_state() once before iterating")
            yield from self._crew.iterate()

    def close(self) -> None:
        """End the threads, each after its current point. They end with this flow, too."""
        if self._crew is not None:
            self._crew.close()

    def state_dict(self) -> dict[str, Any]:
        """Raise StatelessError: the order of the points depends on the speed of the threads."""
        name = type(self).__name__
        raise StatelessError(f"{name} has no position: its threads run ahead, in an order that depends on their speed")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse, as ``state_dict`` does."""
        self.state_dict()


class _MailboxClosedError(DataFlowTerminated):
    """The mailbox was closed with the flow of its threads."""


class _Mailbox(Generic[_Item]):
    """A queue between threads, with room for ``capacity`` items or any number; closing it wakes all that wait."""

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._items: deque[_Item] = deque()
        self._is_closed = False
        lock = threading.Lock()
        self._not_empty = threading.Condition(lock)
        self._not_full = threading.Condition(lock)

    def put(self, item: _Item) -> None:
        """Add an item, after waiting for room."""
        with self._not_full:
            is_bounded = self._capacity is not None
            self._not_full.wait_for(lambda: self._is_closed or not is_bounded or len(self._items) < self._capacity)  # type: ignore[operator]
            self._check_open()
            self._items.append(item)
            self._not_empty.notify()

    def get(self) -> _Item:
        """Take the first item, after waiting for one."""
        with self._not_empty:
            self._not_empty.wait_for(lambda: self._is_closed or self._items)
            self._check_open()
            self._not_full.notify()
            return self._items.popleft()

    def close(self) -> None:
        """Drop all items, and wake all that wait."""
        with self._not_empty:
            self._is_closed = True
            self._items.clear()
            self._not_empty.notify_all()
            self._not_full.notify_all()

    @property
    def has_items(self) -> bool:
        """Whether there is an item."""
        return bool(self._items)

    def _check_open(self) -> None:
        if self._is_closed:
            raise _MailboxClosedError("the workers were ended: use reset_state() to start new ones")


def _close(*mailboxes: _Mailbox[Any]) -> None:
    for mailbox in mailboxes:
        mailbox.close()


class _ThreadPool(MapPool):
    """Threads that call a function and run until the pool is closed or garbage collected."""

    def __init__(self, owner: str, func: Callable[[Any], Any], count: int) -> None:
        self._jobs: _Mailbox[tuple[Any, Any]] = _Mailbox()
        self._results: _Mailbox[Result] = _Mailbox()
        # The threads refer to the mailboxes and not to the pool, so that it can be garbage collected.
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
        """End the threads, each after its current point."""
        self._finalizer()


def _work(name: str, func: Callable[[Any], Any], jobs: _Mailbox[tuple[Any, Any]], results: _Mailbox[Result]) -> None:
    """Map points in a thread of the pool."""
    while True:
        try:
            tag, point = jobs.get()
            results.put(_map(name, func, tag, point))
            # A waiting thread keeps nothing alive.
            del tag, point
        except _MailboxClosedError:
            return


def _map(name: str, func: Callable[[Any], Any], tag: object, point: object) -> Result:
    try:
        return Result(tag, func(point), None)
    except BaseException as error:
        # Made here, since the traceback of its cause goes there.
        failure = DataWorkerError(f"thread {name} raised {type(error).__name__}: {error}")
        failure.__cause__ = error
        return Result(tag, None, failure)


class _Given(NamedTuple):
    """A message of a thread: a data point, the end of its pass, or an exception."""

    thread: int
    number: int
    kind: Literal["point", "end", "error"]
    value: Any


class _ThreadCrew:
    """Threads that each iterate a flow after its reset, until the crew is closed or garbage collected.

    Each pass of a thread has a number, which is sent to it when it may begin; points of earlier passes are dropped.
    With a known length the threads begin again by themselves, and passes are cut from their points.
    """

    def __init__(self, owner: str, flows: Sequence[DataFlow], num_prefetch: int, length: int | None) -> None:
        self._length = length
        self._given: _Mailbox[_Given] = _Mailbox(num_prefetch)
        self._orders: list[_Mailbox[int]] = [_Mailbox() for _ in flows]
        self._names = [f"{owner}-{index}" for index in range(len(flows))]
        # The threads refer to the mailboxes and not to the crew, so that it can be garbage collected.
        self._finalizer = weakref.finalize(self, _close, self._given, *self._orders)
        # The number of the pass that each thread should be at; and the threads that wait for a number.
        self._wanted = [0] * len(flows)
        self._idle = set(range(len(flows)))
        for index, (ds, orders) in enumerate(zip(flows, self._orders, strict=True)):
            worker = _Worker(index, ds, orders, self._given, goes_on=length is not None)
            threading.Thread(target=worker.run, name=self._names[index], daemon=True).start()

    def iterate(self) -> Iterator[Any]:
        """Yield a pass; raise the exceptions of threads."""
        running = set(range(len(self._orders)))
        for index in sorted(running if self._length is None else self._idle):
            self._wanted[index] += 1
            self._orders[index].put(self._wanted[index])
        self._idle.clear()
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
        """End the threads, each after its current point."""
        self._finalizer()


class _Worker:
    """The loop of one thread."""

    def __init__(
        self, index: int, ds: DataFlow, orders: _Mailbox[int], given: _Mailbox[_Given], *, goes_on: bool
    ) -> None:
        self._index = index
        self._ds = ds
        self._orders = orders
        self._given = given
        self._goes_on = goes_on

    def run(self) -> None:
        """Yield passes into the mailbox until it is closed."""
        try:
            number = self._orders.get()
            while True:
                number = self._run_pass(number)
        except _MailboxClosedError:
            return

    def _run_pass(self, number: int) -> int:
        """Run one pass; return the number of the next one."""
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
