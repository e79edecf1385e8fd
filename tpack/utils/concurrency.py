"""Threads and child processes that end when they should, and tell why.

Python prints the exception of a thread and forgets it; here it is kept, with its traceback, for the owner to raise. A
worker process must never outlive the run: after an orderly exit (``ensure_proc_terminate``), or a kill
(``enable_death_signal``, which asks the kernel). A Ctrl-C in the terminal is for the run alone, which then ends its
workers (``start_proc_mask_signal``).
"""

import atexit
import ctypes
import functools
import multiprocessing
import os
import queue
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol, TypeVar

from tpack.errors import ConfigError, WrongTypeError
from tpack.types import Session
from tpack.utils import logger
from tpack.utils.child_process import mask_sigint
from tpack.utils.validation import shown

__all__ = [
    "DIE",
    "LoopThread",
    "ShareSessionThread",
    "StoppableThread",
    "enable_death_signal",
    "ensure_proc_terminate",
    "mask_sigint",
    "start_proc_mask_signal",
]


T = TypeVar("T")

_POLL_SECS = 0.2
_TERMINATE_SECS = 5.0
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


class _Die:
    """The class of ``DIE``; pickling it gives the same object back, so that ``is DIE`` holds across processes."""

    def __reduce__(self) -> str:
        return "DIE"

    def __repr__(self) -> str:
        return "DIE"


DIE: Final = _Die()
"""What the producer of a queue puts last, so that the consumer ends."""


class StoppableThread(threading.Thread):
    """A thread with a flag that asks it to end; subclasses override ``run`` and look at ``stopped()``.

    An exception that leaves ``run`` is logged in one line and kept: the owner asks ``failure()`` or ``reraise()``s it.

    Args:
        evt: the flag, if it is shared with other threads; the thread makes its own otherwise.
        **thread_options: those of ``threading.Thread``, such as ``target``, ``name`` and ``daemon``.
    """

    def __init__(self, evt: threading.Event | None = None, **thread_options: Any) -> None:
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

    def queue_put_stoppable(self, q: "queue.Queue[T]", obj: T) -> bool:
        """Put ``obj`` into a queue, waiting for room until the thread is stopped; return whether it was put."""
        while not self.stopped():
            try:
                q.put(obj, timeout=_POLL_SECS)
            except queue.Full:
                continue
            return True
        return False

    def queue_get_stoppable(self, q: "queue.Queue[T]") -> T | None:
        """Get from a queue, waiting for something until the thread is stopped; return None if it was stopped first."""
        while not self.stopped():
            try:
                return q.get(timeout=_POLL_SECS)
            except queue.Empty:
                continue
        return None


class LoopThread(StoppableThread):
    """A daemon thread that calls one function again and again, and can be paused between two calls.

    Args:
        func: called without arguments until the thread is stopped or the function raises.
        pausable: whether ``pause`` is allowed.
    """

    def __init__(self, func: Callable[[], object], pausable: bool = True) -> None:
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
        """Let no call begin any more, and wait for the running one; refuse a thread with ``pausable=False``."""
        self._check_pausable()
        self._may_run.clear()
        if self.stopped():
            # A thread that is to end must not wait for resume().
            self._may_run.set()
        with self._calling:
            pass

    def resume(self) -> None:
        """Go on calling the function; refuse a thread with ``pausable=False``."""
        self._check_pausable()
        self._may_run.set()

    def stop(self) -> None:
        """Ask the thread to end after the call that runs; a paused thread ends too."""
        super().stop()
        self._may_run.set()

    def _check_pausable(self) -> None:
        if not self._pausable:
            raise ConfigError(f"the thread {self.name!r} cannot be paused or resumed: it was made with pausable=False")


class ShareSessionThread(threading.Thread):
    """Run with the default session of the thread that calls ``start``, and its graph, as the default ones.

    Args:
        th: a thread that is not started, whose ``run`` is run; None in subclasses, which override ``run_in_session``.
    """

    _session: Session = None

    def __init__(self, th: threading.Thread | None = None) -> None:
        super().__init__()
        self._thread = th
        if th is not None:
            self.name = th.name
            self.daemon = th.daemon

    def start(self) -> None:
        """Start the thread; raise ConfigError if there is no default session."""
        # Who has a session has loaded TensorFlow; this module works without.
        tensorflow = sys.modules.get("tensorflow")
        session = tensorflow.compat.v1.get_default_session() if tensorflow is not None else None
        if session is None:
            raise ConfigError(f"the thread {self.name!r} is to share the default session, and there is none")
        self._session = session
        super().start()

    @contextmanager
    def default_sess(self) -> Iterator[Session]:
        """Make the session, yielded, and its graph the default ones for a block, in subclasses that override ``run``.

        Raises:
            ConfigError: The thread was not started, and so there is none.
        """
        if self._session is None:
            raise ConfigError(f"the thread {self.name!r} has a session from its start on, and was not started")
        with self._session.graph.as_default(), self._session.as_default():
            yield self._session

    def run(self) -> None:
        """Run in the session."""
        with self.default_sess():
            self.run_in_session()

    def run_in_session(self) -> None:
        """Run the thread that was given."""
        if self._thread is None:
            raise NotImplementedError(f"{type(self).__name__} was given no thread and does not override run_in_session")
        self._thread.run()


def ensure_proc_terminate(proc: BaseProcess | Iterable[BaseProcess]) -> None:
    """End processes, if still alive, when this process exits: by SIGTERM, and by SIGKILL if that does not help.

    They may be not started yet, and garbage collected before.
    """
    for each in [proc] if isinstance(proc, BaseProcess) else proc:
        atexit.register(_terminate, weakref.ref(each), os.getpid())


def _terminate(reference: "weakref.ref[BaseProcess]", owner_pid: int) -> None:
    """End a process that still exists and lives; do nothing in a fork of its owner."""
    proc = reference()
    if proc is None or os.getpid() != owner_pid or proc.pid is None or not proc.is_alive():
        return
    proc.terminate()
    proc.join(_TERMINATE_SECS)
    if proc.is_alive():
        proc.kill()
        proc.join()


class Startable(Protocol):
    """A process, a thread, or whatever else has ``start()``."""

    def start(self) -> None:
        """Begin to run."""


def start_proc_mask_signal(proc: Startable | Iterable[Startable]) -> None:
    """Start processes that a Ctrl-C on the terminal does not reach, so that the parent alone decides when they end.

    Args:
        proc: a process that is not started, or several of them. Threads may be among them, and other objects with
            ``start()``; nothing changes for those that run in this process, where the main thread gets the signal.

    Raises:
        WrongTypeError: One cannot be started; then none is.
    """
    several = list(proc) if isinstance(proc, Iterable) and not hasattr(proc, "start") else [proc]
    for each in several:
        if not callable(getattr(each, "start", None)):
            raise WrongTypeError(f"start_proc_mask_signal got proc={shown(each)}: expected what has start(), or a list")
    with mask_sigint():
        for each in several:
            each.start()


def enable_death_signal(signum: int = signal.SIGTERM) -> bool:
    """Send this process a signal when the thread that started it ends, by the kernel; call it in the child, first.

    The kernel watches the parent's thread: do not use it in children of a short-lived thread. If the parent has died
    already, the signal is sent at once. Return whether it is in force; False on systems other than Linux.
    """
    if not sys.platform.startswith("linux"):
        return False
    if _libc().prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0) != 0:
        return False
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os.kill(os.getpid(), signum)
    return True


@functools.cache
def _libc() -> ctypes.CDLL:
    """Return the C library that is loaded already."""
    return ctypes.CDLL(None, use_errno=True)
