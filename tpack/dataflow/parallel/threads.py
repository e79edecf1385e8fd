"""A queue between threads that can be closed, which wakes everyone who waits on it."""

import threading
from collections import deque
from typing import Generic, TypeVar

from tpack.dataflow.base import DataFlowTerminated

Item = TypeVar("Item")


class MailboxClosedError(DataFlowTerminated):
    """The mailbox was closed, since the flow that its threads work for has ended."""


class Mailbox(Generic[Item]):
    """Holds up to a number of items, in their order."""

    def __init__(self, capacity: int | None = None) -> None:
        """Be empty.

        Args:
            capacity: how many items there is room for; None is for any number.
        """
        self._capacity = capacity
        self._items: deque[Item] = deque()
        self._is_closed = False
        lock = threading.Lock()
        self._not_empty = threading.Condition(lock)
        self._not_full = threading.Condition(lock)

    def put(self, item: Item) -> None:
        """Add an item; wait for room.

        Raises:
            MailboxClosedError: The mailbox is closed.
        """
        with self._not_full:
            self._not_full.wait_for(lambda: self._is_closed or not self._is_full)
            self._check_open()
            self._items.append(item)
            self._not_empty.notify()

    def get(self) -> Item:
        """Take the first item; wait for one.

        Raises:
            MailboxClosedError: The mailbox is closed.
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
            raise MailboxClosedError("the workers have been ended: reset_state() starts new ones")
