"""How a worker ends when another one is lost: by an error that names it, in time, and with a code that launchers know.

A step that waits for a lost worker waits in TensorFlow, where no exception of Python's reaches it. So its session is
closed, which lets it return; a process whose step does not return even then is ended. The exit code says that this
process is not the one that failed, so that `tpack launch`, or the rules of a scheduler, can tell the two apart.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

from tpack.errors import ClusterError
from tpack.multi_worker.cluster.exit_codes import exit_code, last_words
from tpack.multi_worker.cluster.peers import Peers
from tpack.utils import logger
from tpack.utils.process_exit import ExitTimer, exit_now
from tpack.utils.validation import check_arguments

GRACE_SECS = 5.0
"""How long a step has to return when its session was closed."""

_LAST_SECS = 5.0


@check_arguments
@contextlib.contextmanager
def ended_by_loss(
    peers: Peers,
    break_off: Callable[[], None],
    *,
    lost_connection: tuple[type[Exception], ...] = (),
    grace_secs: float = GRACE_SECS,
) -> Iterator[None]:
    """Run a block that ends when the workers cannot go on together, whatever it waits for.

    What the block itself raises is told to the others, so that they end with its message.

    Args:
        peers: the workers.
        break_off: lets what the block waits for return, as closing a session does; called from another thread.
        lost_connection: errors that come when another worker is gone, before or after its loss is known here. Such an
            error waits until it is known who was lost, for `heartbeat_secs`.
        grace_secs: how long after a loss the block may go on; after that the process ends.

    Raises:
        PeerLostError: A worker was lost, or failed. If nobody catches it, the process ends with `EXIT_PEER_LOST`.
        ClusterError: The workers made different calls or numbers of steps.
    """
    end = _End(peers, break_off, grace_secs)
    peers.on_lost(end.begin)
    try:
        yield
    except Exception as error:
        if isinstance(error, lost_connection):
            peers.wait_until_lost()
        lost = peers.error
        if lost is None:
            peers.report_failure(f"{type(error).__name__}: {str(error).strip()[:1000]}")
            raise
        if isinstance(error, ClusterError):
            raise
        raise lost from error
    else:
        peers.check()
    finally:
        end.leave()


class _End:
    """The end of a process whose peers were lost.

    Args:
        peers: the workers.
        break_off: see `ended_by_loss`.
        grace_secs: the same.
    """

    def __init__(self, peers: Peers, break_off: Callable[[], None], grace_secs: float) -> None:
        self._peers = peers
        self._break_off = break_off
        self._grace_secs = grace_secs
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._timer: ExitTimer | None = None

    def begin(self, error: ClusterError) -> None:
        """See to it that the block is left soon; called in a thread of its own."""
        code = exit_code(error, self._peers.rank)
        logger.error(f"Cluster: {error}.")
        with self._lock:
            if self._left.is_set():
                return
            # Python's own threads do not run while one holds its lock in C.
            self._timer = ExitTimer(self._grace_secs + _LAST_SECS, code)
        threading.Thread(target=self._break_off, name="breaks off the step", daemon=True).start()
        if not self._left.wait(self._grace_secs):
            logger.error(f"Training did not return within {self._grace_secs:g} s: the process is ended.")
            exit_now(code, last_words(error, self._peers.rank))

    def leave(self) -> None:
        """Say that the block was left."""
        with self._lock:
            self._left.set()
            if self._timer is not None:
                self._timer.cancel()
