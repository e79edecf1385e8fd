"""End this process at a certain moment, whatever its threads are doing.

An orderly end needs the main thread, and one that waits in C, for data or for a disk, never comes to it. `exit_now`
ends the process from any thread; `ExitTimer` from none at all: the C library calls its own ``_exit`` when the time has
come, also while a thread holds Python's lock and lets no other one run.

Neither runs what was registered for the end of the interpreter. So `exit_now` does what must not be left out: what was
logged and printed is written, and processes that `multiprocessing` has made are killed. Those that tpack itself has
made notice the end of their owner (`tpack.utils.child_process`), and named shared memory is removed by Python's tracker
of resources, which notices it too.
"""

import ctypes
import logging
import multiprocessing
import os
import sys
import threading
from typing import NoReturn

from tpack.utils import logger

_FLUSH_SECS = 0.2
# From time.h and signal.h of Linux.
_CLOCK_MONOTONIC = 1
_SIGEV_THREAD = 2
_NANOSECS = 1_000_000_000


def exit_now(code: int, reason: str) -> NoReturn:
    """End the process; may be called from any thread.

    Args:
        code: its exit code.
        reason: what to log.
    """
    # A thread that hangs may hold the lock of a stream or a handler, so that nobody waits for long.
    flushing = threading.Thread(target=_say_and_flush, args=(reason,), name="last words", daemon=True)
    flushing.start()
    for child in multiprocessing.active_children():
        child.kill()
    flushing.join(_FLUSH_SECS)
    os._exit(code)


def _say_and_flush(reason: str) -> None:
    logger.critical(reason)
    for handler in logging.getLogger("tpack").handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


class ExitTimer:
    """Ends this process after some time, unless it is cancelled, without the help of Python.

    On systems other than Linux it does nothing.

    Args:
        secs: after how long.
        code: the exit code.

    Raises:
        OSError: The system gives no timer.
    """

    def __init__(self, secs: float, code: int) -> None:
        self._timer = ctypes.c_void_p()
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
        if self._libc is None or not hasattr(self._libc, "timer_create"):
            self._libc = None
            return
        event = _SignalEvent(
            value=code,
            notify=_SIGEV_THREAD,
            function=ctypes.cast(self._libc._exit, ctypes.c_void_p).value,
        )
        if self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)) != 0:
            raise OSError(ctypes.get_errno(), "timer_create")
        whole, nanosecs = divmod(int(secs * _NANOSECS), _NANOSECS)
        self._libc.timer_settime(self._timer, 0, ctypes.byref(_TimerSpec(0, 0, whole, nanosecs)), None)

    def cancel(self) -> None:
        """Let the process live. Only the first call does anything."""
        if self._libc is not None:
            self._libc.timer_delete(self._timer)
        self._libc = None


class _SignalEvent(ctypes.Structure):
    """``struct sigevent`` of the C library."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 32),
    )


class _TimerSpec(ctypes.Structure):
    """``struct itimerspec`` of the C library."""

    _fields_ = (
        ("interval_secs", ctypes.c_long),
        ("interval_nanosecs", ctypes.c_long),
        ("secs", ctypes.c_long),
        ("nanosecs", ctypes.c_long),
    )
