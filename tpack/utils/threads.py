"""Threads that can be stopped, and that do not lose the exception that ended them.

Python prints the exception of a thread and forgets it; the program goes on and waits for a thread that is dead. Here
the exception is kept, with its traceback, for the owner to raise.
"""

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any

from tpack.errors import ConfigError
from tpack.utils import logger

_POLL_SECS = 0.2


class StoppableThread(threading.Thread):
    """A thread with a flag that asks it to end; subclasses override ``run`` and look at ``stopped()``.

    An exception that leaves ``run`` is logged in one line and kept: the owner asks ``failure()`` or ``reraise()``s it.
    """

    def __init__(self, evt: threading.Event | None = None, **thread_options: Any) -> None:
        """Make the thread, not started.

        Args:
            evt: the flag, if it is shared with other threads; the thread makes its own otherwise.
            **thread_options: those of ``threading.Thread``, such as ``target``, ``name`` and ``daemon``.
        """
        super().__init__(**thread_options)
        self._stop_event = threading.Event() if evt is None else evt
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread, with a watch around ``run``."""
        # Set on the instance, since run() belongs to the subclass, which need not call ours.
        self.__dict__["run"] = functools.partial(self._run_watched, self.run)
        super().start()

    def _run_watched(self, run: Callable[[], None]) -> None:
        """Run and keep the exception, if any."""
        try:
            run()
        except BaseException as failure:
            self._failure = failure
            logger.error("Thread %s ended with %s: %s", self.name, type(failure).__name__, failure)
        finally:
            del self.__dict__["run"]

    def failure(self) -> BaseException | None:
        """Return the exception that ended the thread, with its traceback; None if there is none (yet)."""
        return self._failure

    def reraise(self) -> None:
        """Raise the exception that ended the thread, in the caller's thread; do nothing if there is none."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stop_event.set()

    def stopped(self) -> bool:
        """Tell whether the thread was asked to end."""
        return self._stop_event.is_set()

    def queue_put_stoppable(self, q: "queue.Queue[Any]", obj: Any) -> bool:
        """Put ``obj`` into a queue, waiting for room until the thread is stopped; return whether it was put."""
        while not self.stopped():
            try:
                q.put(obj, timeout=_POLL_SECS)
            except queue.Full:
                continue
            return True
        return False

    def queue_get_stoppable(self, q: "queue.Queue[Any]") -> Any:
        """Get from a queue, waiting for something until the thread is stopped; return None if it was stopped first."""
        while not self.stopped():
            try:
                return q.get(timeout=_POLL_SECS)
            except queue.Empty:
                continue
        return None


class LoopThread(StoppableThread):
    """A daemon thread that calls one function again and again, and can be paused between two calls."""

    def __init__(self, func: Callable[[], Any], pausable: bool = True) -> None:
        """Make the thread, not started.

        Args:
            func: called without arguments until the thread is stopped or the function raises.
            pausable: whether ``pause`` is allowed.
        """
        super().__init__(daemon=True)
        self._func = func
        self._pausable = pausable
        self._may_run = threading.Event()
        self._may_run.set()
        # Held during each call. Reentrant, so that the function itself may pause its thread.
        self._calling = threading.RLock()

    def run(self) -> None:
        """Call the function until stopped."""
        while not self.stopped():
            self._may_run.wait()
            with self._calling:
                if self._may_run.is_set() and not self.stopped():
                    self._func()

    def pause(self) -> None:
        """Let no call begin any more, and wait until the one that runs has ended.

        Raises:
            ConfigError: The thread was made with ``pausable=False``.
        """
        self._check_pausable()
        self._may_run.clear()
        if self.stopped():
            # A thread that is to end must not wait for resume().
            self._may_run.set()
        with self._calling:
            pass

    def resume(self) -> None:
        """Go on calling the function.

        Raises:
            ConfigError: The thread was made with ``pausable=False``.
        """
        self._check_pausable()
        self._may_run.set()

    def stop(self) -> None:
        """Ask the thread to end after the call that runs; a paused thread ends too."""
        super().stop()
        self._may_run.set()

    def _check_pausable(self) -> None:
        if not self._pausable:
            raise ConfigError(f"the thread {self.name!r} cannot be paused or resumed: it was made with pausable=False")
