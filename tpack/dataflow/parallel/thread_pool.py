"""Threads that map data points."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

from tpack.dataflow.parallel.pool import MapPool, Result
from tpack.dataflow.parallel.threads import Mailbox, MailboxClosedError
from tpack.errors import DataWorkerError


class ThreadPool(MapPool):
    """Threads that run until the pool is closed or garbage collected."""

    def __init__(self, owner: str, func: Callable[[Any], Any], count: int) -> None:
        """Start the threads.

        Args:
            owner: whose threads they are, for their names.
            func: the function that they call.
            count: how many threads.
        """
        self._jobs: Mailbox[tuple[Any, Any]] = Mailbox()
        self._results: Mailbox[Result] = Mailbox()
        # The threads know the mailboxes and not the pool, so that it can be garbage collected.
        self._finalizer = weakref.finalize(self, _close, self._jobs, self._results)
        for index in range(count):
            name = f"{owner}-{index}"
            arguments = (name, func, self._jobs, self._results)
            threading.Thread(target=_work, args=arguments, name=name, daemon=True).start()

    def submit(self, tag: Any, point: Any) -> bool:
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


def _close(*mailboxes: Mailbox[Any]) -> None:
    for mailbox in mailboxes:
        mailbox.close()


def _work(name: str, func: Callable[[Any], Any], jobs: Mailbox[tuple[Any, Any]], results: Mailbox[Result]) -> None:
    """Be a thread of the pool."""
    while True:
        try:
            tag, point = jobs.get()
            results.put(_map(name, func, tag, point))
            # Nothing shall live on in a thread that waits.
            del tag, point
        except MailboxClosedError:
            return


def _map(name: str, func: Callable[[Any], Any], tag: Any, point: Any) -> Result:
    try:
        return Result(tag, func(point), None)
    except BaseException as error:
        return Result(tag, None, _failure(name, error))


def _failure(name: str, error: BaseException) -> DataWorkerError:
    """Return an error to be raised in another thread. It is made here, since the traceback of its cause goes there."""
    failure = DataWorkerError(f"thread {name} raised {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
