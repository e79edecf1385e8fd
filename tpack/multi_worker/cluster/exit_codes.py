"""The exit code of a worker that ends since another was lost, so that launchers can tell the two apart.

An error that nobody catches ends a process with code 1, whatever it is. So what was raised is looked at when the
interpreter ends.
"""

import atexit
import re
import sys
import threading

from tpack.errors import ClusterError, PeerLostError
from tpack.utils.process_exit import exit_now

EXIT_PEER_LOST = 75
"""The exit code of a worker that ends since another was lost: EX_TEMPFAIL of sysexits.h, try again."""

_EXIT_FAILED = 1
_LAST_WORDS = re.compile(r"Rank \d+ ends with code 75, since it has lost ranks? ([\d, ]+)\b")
_LAST_SECS = 10.0


def exit_code(error: BaseException, rank: int) -> int:
    """Return the code with which a worker ends for an error: that of failures, if the fault is its own.

    Args:
        error: what was raised.
        rank: the number of the worker.
    """
    return EXIT_PEER_LOST if isinstance(error, PeerLostError) and rank not in error.ranks else _EXIT_FAILED


def last_words(error: BaseException, rank: int) -> str:
    """Return what a worker logs last, by which launchers know whom it has lost.

    It speaks of ranks, which launchers number over all processes, parameter servers after the workers.

    Args:
        error: what was raised.
        rank: the number of the worker.
    """
    code = exit_code(error, rank)
    ends = f"Rank {rank} ends with code {code}"
    if code != EXIT_PEER_LOST or not isinstance(error, PeerLostError):
        return f"{ends}: {error}"
    lost = f"rank{'s' if len(error.ranks) > 1 else ''} {', '.join(map(str, error.ranks))}"
    return f"{ends}, since it has lost {lost}."


def lost_by(line: str) -> tuple[int, ...]:
    """Return the ranks that a worker has lost, from a line of its log; nothing if the line does not say it.

    Args:
        line: what it printed.
    """
    found = _LAST_WORDS.search(line)
    return tuple(map(int, found[1].split(", "))) if found else ()


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
    threading.Thread(target=_end_after_main_thread, args=(error, rank), name="ends the process", daemon=True).start()


def _exit_if_uncaught(rank: int) -> None:
    error: BaseException | None = getattr(sys, "last_value", None)
    while error is not None and not isinstance(error, PeerLostError):
        error = error.__cause__ or error.__context__
    if error is not None:
        exit_now(exit_code(error, rank), last_words(error, rank))


def _end_after_main_thread(error: ClusterError, rank: int) -> None:
    threading.main_thread().join()
    # While the interpreter ends, it waits for threads, and calls what was registered for the end.
    threading.Event().wait(_LAST_SECS)
    exit_now(exit_code(error, rank), last_words(error, rank))
