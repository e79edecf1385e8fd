"""The workers' control channel, beside TensorFlow: exchanges of small values, and detection of lost workers.

TensorFlow's servers wait without limit for a process that is stopped, and report a killed one as a connection error. So
each worker has a control channel to worker 0 with heartbeats; worker 0 reports to all which one was killed, is stopped,
has no network, or has failed. The channel also exchanges small values that are not tensors of a step: checksums,
results of an evaluation, states of data.

    peers = connect_peers(resolve_cluster())
    losses = peers.gather("loss", loss)      # in all workers: the losses of all, by rank
    seed = peers.broadcast("seed", seed)     # that of worker 0, in all

All workers make the same calls in the same order; otherwise every worker raises an error that lists each one's call.
"""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tpack.errors import ClusterError, ConfigError, PeerLostError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peer_failure import (
    GRACE_SECS,
    ForcedEnd,
    end_soon_after_main_thread,
    set_exit_code_of_uncaught,
)
from tpack.multi_worker.control.client import ControlClient
from tpack.multi_worker.control.handshake import RendezvousOptions, connect, is_proven, present
from tpack.multi_worker.control.messages import Timeouts
from tpack.multi_worker.control.server import FAREWELL_SECS, VERDICT_SECS, ControlServer
from tpack.utils import serialize
from tpack.utils.validation import check_arguments, check_count, check_number, check_text

LARGEST_VALUE_BYTES = 1 << 28
"""The limit of one worker's value in one exchange."""

_LONGEST_ERROR = 1000
_RETRY_SECS = 0.05
_POLL_SECS = 1.0

_LEFT: dict[tuple[str, int], str] = {}
"""The nonce of the last control channel that this process has closed, by the address of worker 0 and rank."""


class Peers:
    """Communication of one worker with the others; made by `connect_peers`.

    A process that is alone has peers too, of size 1, and exchanges with itself.

    Args:
        client: that of the control channel; None for a process that is alone.
        rank: that of this worker; parameter servers come after the workers.
        size: the number of workers.
        timeouts: those of the channel.
        server: in worker 0 only.
    """

    def __init__(
        self,
        client: ControlClient | None,
        rank: int,
        size: int,
        timeouts: Timeouts,
        *,
        server: ControlServer | None = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self._client = client
        self._server = server
        self._timeouts = timeouts
        self._number = 0
        self._turn = threading.Lock()
        self._has_reported = False
        self._is_closed = False

    def wait_until_complete(self) -> None:
        """Wait until all workers are connected.

        Raises:
            PeerLostError: Workers are missing; the message names them.
        """
        # Worker 0 reports the missing ones, and may have started later than this one.
        if self._client is not None and not self._client.wait_for("complete", 2 * self._timeouts.timeout_secs):
            self.check()
            raise PeerLostError("worker 0 did not report that all are connected", (0,))

    def gather(self, topic: str, value: Any, *, timeout_secs: float | None = None) -> list[Any]:
        """Return the values of all workers, by rank; all call it, and wait for each other.

        Args:
            topic: the name of the exchange, the same in all workers.
            value: made of None, numbers, text, bytes, lists, dicts and numpy arrays, at most 256 MiB together. A tuple
                becomes a list; arrays keep shape and dtype.
            timeout_secs: the timeout; None is that of `connect_peers`.

        Raises:
            DataPointError: The value cannot be serialized.
            ConfigError: It is too large.
            PeerLostError: A worker was lost, or did not call it in time; the message names it.
            ClusterError: The workers are in different calls, or one of them has ended already.
        """
        return [serialize.loads(each) for each in self._exchange(topic, serialize.dumps(value), timeout_secs)]

    def broadcast(self, topic: str, value: Any = None, *, root: int = 0, timeout_secs: float | None = None) -> Any:
        """Return the value of one worker, in all.

        Args:
            topic: see `gather`.
            value: that of the root; the values of others are ignored.
            root: the rank of the worker that has the value; the same in all.
            timeout_secs: see `gather`.

        Raises:
            ClusterError, ConfigError, DataPointError, PeerLostError: As `gather` does.
        """
        check_count("Peers.broadcast", "root", root, 0, self.size - 1)
        data = serialize.dumps(value) if self.rank == root else b""
        return serialize.loads(self._exchange(f"{topic} from worker {root}", data, timeout_secs)[root])

    def barrier(self, topic: str, *, timeout_secs: float | None = None) -> None:
        """Wait until all workers have called it.

        Raises:
            ClusterError, ConfigError, DataPointError, PeerLostError: As `gather` does.
        """
        self._exchange(topic, b"", timeout_secs)

    def note_step(self, step: int, *, is_running: bool = False) -> None:
        """Set the current step, which the next heartbeat reports; called before each step.

        A worker that stays in a step for `straggler_secs` while others are further, or wait for it in an exchange, is
        named in the log of all. A worker that ends with fewer steps than the others is an error in all.

        Args:
            step: its number.
            is_running: until the next call, this worker is inside the step, so that `step_timeout_secs` is its limit.
        """
        if self._client is not None:
            self._client.step = step
            self._client.is_in_step = is_running

    def on_lost(self, function: Callable[[ClusterError], None]) -> None:
        """Call a function with the error, once and in a thread of its own, when the workers cannot go on together.

        It can end a step that waits for a lost worker.
        """
        if self._client is not None:
            self._client.on_error(function)

    def on_stall(self, missing_ranks: Callable[[], Iterable[int]]) -> None:
        """Call a function, in a thread of its own, for the ranks whose part of a step that takes too long is missing.

        In synchronous training all workers are in the same step, and those that wait look like the slow one. A worker
        that others wait for, and that does not wait itself, is named in the log of all.
        """
        if self._client is not None:
            self._client.on_stall(missing_ranks)

    def serve_until_end(self) -> None:
        """Wait until all workers have ended, as a parameter server does.

        Raises:
            PeerLostError: A worker, or another parameter server, was lost.
        """
        while self._client is not None and not self._client.wait_for("over", _POLL_SECS):
            self.check()

    def check(self) -> None:
        """Raise the first error, if there is one.

        Raises:
            PeerLostError: A worker was lost, or failed.
            ClusterError: The workers have made different calls or numbers of steps.
        """
        if (error := self.error) is not None:
            raise error

    @property
    def error(self) -> ClusterError | None:
        """The first error, for `check`; a new object each time, since a raised one keeps its traceback."""
        error = None if self._client is None else self._client.error
        return None if error is None else type(error)(*error.args)

    def wait_until_lost(self) -> bool:
        """Wait as long as the detection of a lost worker takes; return whether one was lost."""
        return self._client is not None and self._client.wait_for_error(1.5 * self._timeouts.heartbeat_secs)

    def report_failure(self, text: str, *, not_finite_since: int | None = None) -> None:
        """Report to the others why this process ends, once, unless it ends because another was lost.

        Args:
            text: the error.
            not_finite_since: if it is about NaN or infinity, which the workers exchange: the step since which this
                worker's own part is not finite, or -1. The worker of the first such step has failed, and in all others
                this is a `PeerLostError` that names it.
        """
        if self._client is None or self._client.error is not None or self._is_closed or self._has_reported:
            return
        self._has_reported = True
        if not_finite_since is None:
            self._client.send({"do": "failed", "text": text})
            self._client.wait_for("heard", FAREWELL_SECS)
        else:
            self._client.send({"do": "failed", "text": text, "since": not_finite_since})
            self._client.wait_for("heard", FAREWELL_SECS + VERDICT_SECS)

    def close(self) -> None:
        """End in order, which is not a loss for the others; worker 0, the server, waits until they have ended."""
        if self._client is None or self._is_closed:
            return
        self._is_closed = True
        has_failed = self._client.error is not None or self._has_reported
        if not has_failed:
            self._client.send({"do": "bye"})
            self._client.wait_for("over", self._timeouts.heartbeat_secs)
        self._client.close()
        if self._server is not None:
            self._server.close(FAREWELL_SECS if has_failed else self._timeouts.timeout_secs)

    def __enter__(self) -> "Peers":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.report_failure(described(error))
        self.close()

    def _exchange(self, topic: str, data: bytes, timeout_secs: float | None) -> list[bytes]:
        check_text("Peers.gather", "topic", topic)
        if timeout_secs is not None:
            check_number("Peers.gather", "timeout_secs", timeout_secs, 0, is_low_allowed=False)
        if len(data) > LARGEST_VALUE_BYTES:
            raise ConfigError(
                f"Peers.gather got a value of {len(data)} bytes for {topic!r}: expected at most {LARGEST_VALUE_BYTES}; "
                "use TensorFlow for tensors of a step, and a file system for files"
            )
        if self._client is None:
            return [data]
        if self.rank >= self.size:
            raise ClusterError(f"Peers.gather got {topic!r} in a parameter server: expected a worker")
        if self._is_closed:
            raise ClusterError(f"worker {self.rank} has closed its control channel: {topic!r} cannot be exchanged")
        secs = self._timeouts.timeout_secs if timeout_secs is None else timeout_secs
        with self._turn:
            self.check()
            self._number += 1
            self._client.send({"do": "gather", "number": self._number, "topic": topic, "limit": secs}, data)
            values = self._client.wait_for_result(self._number, secs + self._timeouts.heartbeat_secs)
        if values is None:
            self.check()
            raise PeerLostError(f"worker 0 did not answer to {topic!r} within {secs:g} s", (0,))
        return values


@check_arguments
def connect_peers(
    member: ClusterMember,
    *,
    heartbeat_secs: float = 10.0,
    straggler_secs: float = 60.0,
    timeout_secs: float = 300.0,
    step_timeout_secs: float | None = 1800.0,
) -> Peers:
    """Connect this worker to the others; all workers call it, once, and wait for each other.

    A parameter server calls it too, to be watched as the workers are and to end when they do
    (`Peers.serve_until_end`). It exchanges no values.

    Args:
        member: this process; a single one is not connected.
        heartbeat_secs: of silence, after which a worker is lost. A killed worker is detected at once.
        straggler_secs: after which a worker that others wait for is named in the log; at least `heartbeat_secs`.
        timeout_secs: how long each waits for the others, here and in each exchange.
        step_timeout_secs: after which a worker is lost that does not leave a step while others wait for it, but not
            before it is named; None for never. See `Peers.note_step` and `Peers.on_stall`.

    Raises:
        ConfigError: The process is an evaluator, or a number is out of range.
        ClusterError: Workers are missing, or this one was rejected, or the port is in use; the message says which.
    """
    timeouts = Timeouts(
        check_number("connect_peers", "heartbeat_secs", heartbeat_secs, 0, is_low_allowed=False),
        check_number("connect_peers", "straggler_secs", straggler_secs, heartbeat_secs),
        check_number("connect_peers", "timeout_secs", timeout_secs, 0, is_low_allowed=False),
        LARGEST_VALUE_BYTES,
        math.inf
        if step_timeout_secs is None
        else check_number("connect_peers", "step_timeout_secs", step_timeout_secs, 0, is_low_allowed=False),
    )
    size, options = member.num_workers, member.rendezvous
    if member.job == "evaluator":
        raise ConfigError(f"connect_peers got an evaluator, which has no peers: expected a worker or a ps ({member})")
    rank = size + member.index if member.rank is None else member.rank
    if size == 1 and not member.cluster.get("ps"):
        return Peers(None, 0, 1, timeouts)
    if options is None:
        raise ConfigError(f"connect_peers got a member without an address of worker 0: use resolve_cluster, {member}")
    set_exit_code_of_uncaught(rank)
    options = replace(options, timeout_secs=timeouts.timeout_secs)
    if rank == 0:
        server = ControlServer(options, timeouts)
        peers = Peers(ControlClient(server.start(), size, timeouts), rank, size, timeouts, server=server)
    else:
        connection, number = _admitted(options, rank)
        closed = {(options.master, rank): number}
        client = ControlClient(connection, size, timeouts, on_closed=lambda: _LEFT.update(closed))
        peers = Peers(client, rank, size, timeouts)
    try:
        peers.wait_until_complete()
    except BaseException:
        peers.close()
        raise
    peers.on_lost(lambda error: end_soon_after_main_thread(error, rank))
    return peers


@check_arguments
@contextmanager
def ended_by_loss(
    peers: Peers,
    break_off: Callable[[], None],
    *,
    lost_connection: tuple[type[Exception], ...] = (),
    grace_secs: float = GRACE_SECS,
) -> Iterator[None]:
    """Run a block that ends when the workers cannot go on together, whatever it waits for.

    An error of the block itself is reported to the others, which end with its message.

    Args:
        peers: the workers.
        break_off: makes the block return, as closing a session does; called from another thread.
        lost_connection: errors that a lost worker may cause here before its loss is detected; after such an error this
            waits for the detection, for `heartbeat_secs`.
        grace_secs: how long after a loss the block may go on; then the process ends.

    Raises:
        PeerLostError: A worker was lost, or failed. Uncaught, it ends the process with `EXIT_PEER_LOST`.
        ClusterError: The workers made different calls or numbers of steps.
    """
    end = ForcedEnd(peers.rank, break_off, grace_secs)
    peers.on_lost(end.begin)
    try:
        yield
    except Exception as error:
        if isinstance(error, lost_connection):
            peers.wait_until_lost()
        if peers.error is None:
            peers.report_failure(described(error))
        # Where NaN has come from another worker, that one's error is the answer to the report.
        lost = peers.error
        if lost is None or isinstance(error, ClusterError):
            raise
        raise lost from error
    else:
        peers.check()
    finally:
        end.leave()


def described(error: BaseException) -> str:
    """Return an error as text for the other workers."""
    return f"{type(error).__name__}: {str(error).strip()[:_LONGEST_ERROR]}"


def _admitted(options: RendezvousOptions, rank: int) -> tuple[socket.socket, str]:
    """Return a connection to worker 0 after the handshake, and this side's nonce."""
    deadline = time.monotonic() + options.timeout_secs
    while True:
        connection, why = connect(options, rank, deadline), "is still in the last training"
        try:
            number = _handshake(connection, options, rank)
        except OSError as error:
            number, why = None, f"was lost: {error}"
        except BaseException:
            connection.close()
            raise
        if number is not None:
            return connection, number
        connection.close()
        if time.monotonic() > deadline:
            raise PeerLostError(
                f"worker {rank} was not admitted within {options.timeout_secs:g} s: worker 0 at {options.master} {why}",
                (0,),
            )
        # The server of the rendezvous, or of the last training, was still there.
        time.sleep(_RETRY_SECS)


def _handshake(connection: socket.socket, options: RendezvousOptions, rank: int) -> str | None:
    """Return this side's nonce; None if worker 0 asks to try again."""
    purpose = "worker" if rank < options.size else "ps"
    answer, number, theirs = present(connection, options, rank, purpose, left=_LEFT.get((options.master, rank)))
    refused = answer.get("refused")
    if refused == "again":
        return None
    if refused is not None:
        raise ClusterError(f"worker {rank} of {options.size} got from worker 0 at {options.master}: {refused}")
    if not is_proven(answer.get("proof"), options.secret, "control", number, theirs, {"let_in": rank}):
        raise ClusterError(f"the server at {options.master} does not know the secret of worker {rank}")
    return number
