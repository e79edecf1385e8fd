"""End of a process whose peers were lost: in time, and with an exit code of its own.

A step that waits for a lost worker waits in TensorFlow, where no Python exception reaches it. So its session is closed,
which lets the step return; a process whose step does not return even then is ended. Since an uncaught error ends a
process with code 1, the code is set when the interpreter exits.
"""

import atexit
import functools
import re
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

from tpack.errors import ClusterError, PeerLostError
from tpack.utils import logger
from tpack.utils.process_exit import ExitTimer, exit_now

EXIT_PEER_LOST = 75
"""The exit code of a worker that ends because another was lost: EX_TEMPFAIL of sysexits.h, try again."""
GRACE_SECS = 5.0
"""The time in which a step has to return after its session was closed."""

_EXIT_FAILED = 1
_LAST_WORDS = re.compile(r"Rank \d+ ends with code 75, since it has lost ranks? (\d+(?:, \d+)*)(?:: (.*))?")
_FAILED, _COLOR = re.compile(r"(?:worker|ps) \d+ failed: "), re.compile(r"\x1b\[[\d;]*m")
_LONGEST_CAUSE = 300
# The time for the end of the interpreter, and for an exit without Python.
_LAST_SECS, _TIMER_SECS = 10.0, 5.0


def exit_code(error: BaseException, rank: int) -> int:
    """Return the exit code of worker ``rank`` after an error: that of failures if it caused the error itself."""
    return EXIT_PEER_LOST if isinstance(error, PeerLostError) and rank not in error.ranks else _EXIT_FAILED


def last_words(error: BaseException, rank: int) -> str:
    """Return a worker's last line of the log, in which launchers find the ranks that it has lost."""
    code = exit_code(error, rank)
    ends = f"Rank {rank} ends with code {code}"
    if code != EXIT_PEER_LOST or not isinstance(error, PeerLostError):
        return f"{ends}: {error}"
    lost = f"rank{'s' if len(error.ranks) > 1 else ''} {', '.join(map(str, error.ranks))}"
    return f"{ends}, since it has lost {lost}: {' '.join(str(error).split())[:_LONGEST_CAUSE]}"


class LostRanks(NamedTuple):
    """The last line of a worker that ends because others were lost.

    Attributes:
        ranks: those that it has lost; () for other lines.
        text: the error that names them.
        have_failed: whether they have reported an error themselves, and so end by themselves.
    """

    ranks: tuple[int, ...] = ()
    text: str = ""
    have_failed: bool = False


def lost_by(line: str) -> LostRanks:
    """Return which ranks a worker has lost, and how, from a line of its log."""
    found = _LAST_WORDS.search(line)
    if found is None:
        return LostRanks()
    text = _COLOR.sub("", found[2] or "").strip()
    return LostRanks(tuple(map(int, found[1].split(", "))), text, _FAILED.match(text) is not None)


@functools.cache
def set_exit_code_of_uncaught(rank: int) -> None:
    """Set the exit code of this process if it ends by an uncaught `PeerLostError`; further calls do nothing."""

    def exit_if_uncaught() -> None:
        error: BaseException | None = getattr(sys, "last_value", None)
        while error is not None and not isinstance(error, PeerLostError):
            error = error.__cause__ or error.__context__
        if error is not None:
            exit_now(exit_code(error, rank), last_words(error, rank))

    atexit.register(exit_if_uncaught)


def end_soon_after_main_thread(error: ClusterError, rank: int) -> None:
    """End this process soon after its main thread, even if another thread never ends; called in a daemon thread."""
    threading.main_thread().join()
    # At its end, the interpreter waits for threads and runs exit functions.
    threading.Event().wait(_LAST_SECS)
    exit_now(exit_code(error, rank), last_words(error, rank))


class ForcedEnd:
    """End of a block, and of the process if the block does not end in time, after peers were lost.

    Args:
        rank: that of this worker.
        break_off: makes the block return; called from another thread.
        grace_secs: the time that it has.
    """

    def __init__(self, rank: int, break_off: Callable[[], None], grace_secs: float) -> None:
        self._rank = rank
        self._break_off = break_off
        self._grace_secs = grace_secs
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._timer: ExitTimer | None = None

    def begin(self, error: ClusterError) -> None:
        """Break off the block, and wait for its end; called in a thread of its own."""
        code = exit_code(error, self._rank)
        logger.error(f"Cluster: {error}.")
        with self._lock:
            if self._left.is_set():
                return
            # Python threads do not run while one of them holds the interpreter lock in C.
            self._timer = ExitTimer(self._grace_secs + _TIMER_SECS, code)
        try:
            threading.Thread(target=self._break_off, name="breaks off the step", daemon=True).start()
        except RuntimeError as no_thread:
            logger.error(f"The step cannot be broken off: {no_thread}.")
        if not self._left.wait(self._grace_secs):
            logger.error(f"Training did not return within {self._grace_secs:g} s: the process is ended.")
            exit_now(code, last_words(error, self._rank))

    def leave(self) -> None:
        """Note the end of the block."""
        with self._lock:
            self._left.set()
            if self._timer is not None:
                self._timer.cancel()
