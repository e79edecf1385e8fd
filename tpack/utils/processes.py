"""Child processes that end with their parent and are not hit by its Ctrl-C.

A worker process must never outlive the run, whatever ended the run: an orderly exit (``ensure_proc_terminate``), or a
kill that leaves no time for anything (``enable_death_signal``, which asks the kernel).
"""

import atexit
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

_PR_SET_PDEATHSIG = 1
_TERMINATE_SECS = 5.0


def ensure_proc_terminate(proc: BaseProcess | Iterable[BaseProcess]) -> None:
    """End processes when this process exits, if they are alive then: by SIGTERM, and by SIGKILL if that does not help.

    The processes may be garbage collected before.

    Args:
        proc: a process made by this process, or several of them, started or not.
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


@contextmanager
def mask_sigint() -> Iterator[bool]:
    """Block SIGINT in this thread for the time of a ``with`` block; children started there have it blocked for good.

    A Ctrl-C in that time is not lost: it arrives when the block ends.

    Returns:
        A context manager whose value tells whether the signal is blocked, which only POSIX systems can do.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield False
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_proc_mask_signal(proc: BaseProcess | Iterable[BaseProcess]) -> None:
    """Start processes that a Ctrl-C on the terminal does not reach, so that the parent alone decides when they end.

    Args:
        proc: a process that is not started, or several of them.
    """
    with mask_sigint():
        for each in [proc] if isinstance(proc, BaseProcess) else proc:
            each.start()


def enable_death_signal(signum: int = signal.SIGTERM) -> bool:
    """Ask the kernel to send this process a signal when the thread that started it ends; call it in the child, first.

    The kernel watches the parent's thread and not its process: do not use it in children of a thread that is
    short-lived. If the parent has died already, the signal is sent at once.

    Args:
        signum: the signal.

    Returns:
        Whether it is in force; False on systems other than Linux.
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
