"""A worker ends when the process that owns it ends, however that ends and whatever the worker is doing.

The owner holds the writing end of a pipe and never writes to it. When the owner is gone, the kernel closes that end; on
Linux it then sends the worker SIGKILL, also while it computes in C and lets no Python thread run. Unlike the kernel's
parent-death signal, which watches the thread that made the process, this watches the owner: the thread may end.
"""

import fcntl
import os
import select
import signal
import threading


def hang_on(descriptor: int) -> None:
    """Let this process be killed when the other end of a pipe is closed; call it in the worker, first.

    Args:
        descriptor: the reading end; it must stay open.
    """
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
        # The owner may have gone before the kernel was asked.
        if select.select([descriptor], [], [], 0)[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait_and_die, args=(descriptor,), name="tpack-lifeline", daemon=True).start()


def _wait_and_die(descriptor: int) -> None:
    """Wait for the end of the owner, which is the end of the pipe."""
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGKILL)
