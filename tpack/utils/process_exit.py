"""End of this process at a given time, whatever its threads are doing.

An orderly end needs the main thread, which may wait in C for data or a disk. `exit_now` ends the process from any
thread. `ExitTimer` needs none: the C library calls its own ``_exit``, also while a thread holds Python's lock.

Neither runs functions registered for the end of the interpreter. So `exit_now` flushes logs and streams, and kills
processes of `multiprocessing`. tpack's own children detect the end of their owner (`tpack.utils.child_process`), and
Python's resource tracker removes named shared memory.
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
    """Log a reason, and end the process with an exit code; from any thread."""
    # A thread that hangs may hold the lock of a stream or a handler, so the wait is short.
    flushing = threading.Thread(target=_log_and_flush, args=(reason,), name="last words", daemon=True)
    try:
        flushing.start()
    except RuntimeError:
        # No thread is left.
        _log_and_flush(reason)
    for child in multiprocessing.active_children():
        child.kill()
    if flushing.ident is not None:
        flushing.join(_FLUSH_SECS)
    os._exit(code)


def _log_and_flush(reason: str) -> None:
    logger.critical(reason)
    for handler in logging.getLogger("tpack").handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


class ExitTimer:
    """Timer that ends this process with an exit code, unless it is cancelled, without Python; on Linux only.

    Raises:
        OSError: The system has no timer left.
    """

    def __init__(self, secs: float, code: int) -> None:
        self._timer = ctypes.c_void_p()
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
        if self._libc is None or not hasattr(self._libc, "timer_create"):
            self._libc = None
            return
        event = _SignalEvent(
            value=code, notify=_SIGEV_THREAD, function=ctypes.cast(self._libc._exit, ctypes.c_void_p).value
        )
        if self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)) != 0:
            raise OSError(ctypes.get_errno(), "timer_create")
        whole, nanosecs = divmod(int(secs * _NANOSECS), _NANOSECS)
        self._libc.timer_settime(self._timer, 0, ctypes.byref(_TimerSpec(0, 0, whole, nanosecs)), None)

    def cancel(self) -> None:
        """Cancel the timer; further calls do nothing."""
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
