"""The exit code of a worker that ends since another was lost, so that launchers can tell the two apart.

An error that nobody catches ends a process with code 1, whatever it is. So what was raised is looked at when the
interpreter ends.
"""

import atexit
import sys
import threading

from tpack.errors import ClusterError, PeerLostError
from tpack.utils.process_exit import exit_now

EXIT_PEER_LOST = 75
"""The exit code of a worker that ends since another was lost: EX_TEMPFAIL of sysexits.h, try again."""

_EXIT_FAILED = 1
_LAST_SECS = 10.0


def exit_code(error: BaseException, rank: int) -> int:
    """Return the code with which a worker ends for an error: that of failures, if the fault is its own.

    Args:
        error: what was raised.
        rank: the number of the worker.
    """
    return EXIT_PEER_LOST if isinstance(error, PeerLostError) and rank not in error.ranks else _EXIT_FAILED


def end_with_code_of_uncaught(rank: int) -> None:
    """Have this process end with the right code, if it ends since nobody caught a `PeerLostError`.

    Args:
        rank: the number of this worker.
    """
    atexit.register(_exit_if_uncaught, rank)


def end_soon_after_main_thread(error: ClusterError, rank: int) -> None:
    """Have this process end soon after its main thread has, also if another thread of it never ends.

    Args:
        error: what has gone wrong.
        rank: the number of this worker.
    """
    code = exit_code(error, rank)
    threading.Thread(target=_end_after_main_thread, args=(code,), name="ends the process", daemon=True).start()


def _exit_if_uncaught(rank: int) -> None:
    error: BaseException | None = getattr(sys, "last_value", None)
    while error is not None and not isinstance(error, PeerLostError):
        error = error.__cause__ or error.__context__
    if error is not None:
        code = exit_code(error, rank)
        exit_now(code, f"Worker {rank} ends with code {code}, since it has lost another one.")


def _end_after_main_thread(code: int) -> None:
    main = threading.main_thread()
    main.join()
    # While the interpreter ends, it waits for threads, and calls what was registered for the end.
    threading.Event().wait(_LAST_SECS)
    exit_now(code, f"The process did not end within {_LAST_SECS:g} s after its main thread: it ends with code {code}.")
