"""Threads that each iterate a flow, and what they have given.

Each pass of a thread has a number, which the thread is told when it may begin. What comes from an earlier one is
dropped. With a known length the threads go on by themselves, and passes are cut from what they give.
"""

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from tpack.dataflow.base import DataFlow
from tpack.dataflow.parallel.threads import Mailbox, MailboxClosedError
from tpack.errors import DataWorkerError


class _Given(NamedTuple):
    """What a thread has given: a data point, the end of its pass, or an exception."""

    thread: int
    number: int
    kind: Literal["point", "end", "error"]
    value: Any


class ThreadCrew:
    """Threads that run until the crew is closed or garbage collected."""

    def __init__(self, owner: str, flows: Sequence[DataFlow], num_prefetch: int, length: int | None) -> None:
        """Start the threads.

        Args:
            owner: whose threads they are, for their names.
            flows: the flows, after their ``reset_state``; one for each thread.
            num_prefetch: how many points may wait.
            length: of a pass; None if a pass is one pass of each flow.
        """
        self._length = length
        self._given: Mailbox[_Given] = Mailbox(num_prefetch)
        self._orders: list[Mailbox[int]] = [Mailbox() for _ in flows]
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


def _close(*mailboxes: Mailbox[Any]) -> None:
    for mailbox in mailboxes:
        mailbox.close()


class _Worker:
    """What one thread does."""

    def __init__(
        self, index: int, ds: DataFlow, orders: Mailbox[int], given: Mailbox[_Given], *, goes_on: bool
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
        except MailboxClosedError:
            return

    def _run_pass(self, number: int) -> int:
        """Give a pass; return the number of the next one."""
        try:
            for point in self._ds:
                if self._orders.has_items:
                    return self._orders.get()
                self._given.put(_Given(self._index, number, "point", point))
        except MailboxClosedError:
            raise
        except BaseException as error:
            self._given.put(_Given(self._index, number, "error", error))
            return self._orders.get()
        self._given.put(_Given(self._index, number, "end", None))
        return number if self._goes_on else self._orders.get()
