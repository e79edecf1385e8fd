"""Worker 0's side of the line between workers: who is there, what they exchange, who is missing and who is slow.

Every worker has one connection to the hub, worker 0 itself as well, and every parameter server, which is only watched:
its number is that of all processes, after the workers. A thread serves all of them:

    worker -> hub: beat (its step)      every quarter of the time after which a silent worker is lost
                   gather (values)      all call it; when the last has come, each is given all values
                   failed (why)         it ends, and tells why
                   stalled (for whom)   it waits in a step for others, and for which
                   bye (its last step)  an orderly end
    hub -> worker: beat, result, slow (who is waited for), lost (what has gone wrong, and whose fault it is), over

What goes wrong first is told to all, once; nothing is exchanged after that.
"""

import contextlib
import math
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tpack.multi_worker.control.accept import Door
from tpack.multi_worker.control.handshake import RendezvousOptions
from tpack.multi_worker.control.messages import Channel, ControlMessage, Waker
from tpack.utils import logger

FAREWELL_SECS = 2.0
"""How long the line lives after something has gone wrong, so that all hear of it."""


@dataclass(frozen=True)
class Timeouts:
    """How long what may take.

    Attributes:
        heartbeat_secs: after how long of silence a worker is lost.
        straggler_secs: after how long a worker that others wait for is named.
        timeout_secs: how long each waits for the others.
        largest: the most bytes that one value may have.
    """

    heartbeat_secs: float
    straggler_secs: float
    timeout_secs: float
    largest: int

    @property
    def beat_secs(self) -> float:
        """How often each side says that it is there."""
        return self.heartbeat_secs / 4


@dataclass
class _Worker:
    """What the hub knows of a worker."""

    channel: Channel
    step: int = 0
    step_at: float = field(default_factory=time.monotonic)
    waits_for: list[int] = field(default_factory=list)
    ended_at_step: int | None = None
    is_lost: bool = False
    beat_at: float = 0.0
    events: int = selectors.EVENT_READ

    @property
    def is_here(self) -> bool:
        """Whether it trains."""
        return self.ended_at_step is None and not self.is_lost


@dataclass
class _Exchange:
    """One exchange of values, from the first worker that comes to the last."""

    number: int
    topic: str
    deadline: float
    limit_secs: float
    began: float = field(default_factory=time.monotonic)
    values: dict[int, bytes] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)


class ControlServer:
    """Serves the workers in a thread of its own.

    Args:
        point: where the workers come to.
        limits: how long what may take.

    Raises:
        ClusterError: It cannot listen there.
    """

    def __init__(self, point: RendezvousOptions, limits: Timeouts) -> None:
        self._point = point
        self._limits = limits
        self._deadline = time.monotonic() + limits.timeout_secs
        self._workers: dict[int, _Worker] = {}
        self._came: list[tuple[int, socket.socket]] = []
        self._exchange: _Exchange | None = None
        self._has_failed = False
        self._is_complete = False
        self._warned: set[tuple[int, str]] = set()
        self._lock = threading.Lock()
        self._waker = Waker()
        self._close_by: float | None = None
        self._selector = selectors.DefaultSelector()
        self._door = Door(point, self._deadline, has_ended=self._has_ended, comes=self._comes)
        self._selector.register(self._door, selectors.EVENT_READ)
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="peers hub", daemon=True)

    def start(self) -> socket.socket:
        """Begin to serve; return worker 0's own connection."""
        ours, theirs = socket.socketpair()
        self._comes(0, theirs)
        self._thread.start()
        return ours

    def close(self, secs: float) -> None:
        """Wait until all workers have ended, and stop serving.

        Args:
            secs: how long to wait.
        """
        self._close_by = time.monotonic() + secs
        self._waker.wake()
        self._thread.join()

    # The thread.

    def _serve(self) -> None:
        try:
            looked_at = time.monotonic()
            while not self._is_over():
                ready = self._selector.select(self._wait_secs())
                self._forgive(time.monotonic() - looked_at)
                for key, _ in ready:
                    self._take(key)
                self._let_in()
                looked_at = time.monotonic()
                self._look()
                self._flush()
        finally:
            self._dismiss()
            for _, connection in self._came:
                connection.close()
            self._door.close()
            self._selector.close()
            self._waker.close()

    @property
    def _training(self) -> dict[int, _Worker]:
        """Those that train, by rank."""
        return {rank: worker for rank, worker in self._workers.items() if rank < self._point.size}

    def _name(self, rank: int) -> str:
        return f"worker {rank}" if rank < self._point.size else f"ps {rank - self._point.size}"

    def _dismiss(self) -> None:
        """Close all connections; parameter servers hear that nobody needs them any more."""
        for worker in self._workers.values():
            if worker.channel.fileno() >= 0 and not self._has_failed:
                worker.channel.send({"do": "over"})
                with contextlib.suppress(OSError):
                    worker.channel.flush()
            worker.channel.close()

    def _is_over(self) -> bool:
        if self._close_by is None:
            return False
        channels = [worker.channel for worker in self._training.values() if worker.channel.fileno() >= 0]
        # After something has gone wrong, those that are left have to hear of it, and no more.
        is_open = any(channel.has_unsent or not self._has_failed for channel in channels)
        return not is_open or time.monotonic() > self._close_by

    def _wait_secs(self) -> float:
        """Return how long nothing need be looked at."""
        due = [] if self._close_by is None else [self._close_by]
        if not self._has_failed:
            due += [] if self._is_complete else [self._deadline]
            due += [] if self._exchange is None else [self._exchange.deadline]
        return max(min(self._limits.beat_secs / 2, min(due, default=math.inf) - time.monotonic()), 0.0)

    def _take(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._door:
            self._door.open()
        elif key.fileobj is self._waker:
            self._waker.clear()
        else:
            self._hear(key.data)

    def _forgive(self, secs: float) -> None:
        """Hold nobody's silence against it, if this process itself was stopped or had no time.

        Args:
            secs: since when the others were not listened to.
        """
        if secs > self._limits.heartbeat_secs and len(self._workers) > 1:
            text = f"worker 0 was stopped, or had no time, for {secs:.1f} s, so that the others have taken it for lost"
            self._fail(text, [0])
        if secs > self._limits.heartbeat_secs / 2:
            for worker in self._workers.values():
                worker.channel.heard_at = time.monotonic()

    # Who comes.

    def _has_ended(self, rank: int) -> bool:
        worker = self._workers.get(rank)
        return worker is not None and worker.ended_at_step is not None

    def _comes(self, rank: int, connection: socket.socket) -> None:
        """Take a connection, from another thread."""
        with self._lock:
            self._came.append((rank, connection))
        self._waker.wake()

    def _let_in(self) -> None:
        with self._lock:
            came, self._came = self._came, []
            for rank, connection in came:
                channel = Channel(connection, self._limits.largest)
                self._workers[rank] = _Worker(channel)
                self._selector.register(channel, selectors.EVENT_READ, rank)
                if self._is_complete:
                    channel.send({"do": "complete"})
        if not self._is_complete and len(self._training) == self._point.size:
            self._is_complete = True
            self._tell_all({"do": "complete"})

    # What is said.

    def _hear(self, rank: int) -> None:
        worker = self._workers[rank]
        try:
            for message in worker.channel.receive():
                self._do(rank, worker, message)
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            self._let_go(rank, error)

    def _let_go(self, rank: int, error: Exception) -> None:
        worker = self._workers[rank]
        self._selector.unregister(worker.channel)
        worker.channel.close()
        if worker.is_here:
            what = (
                "its connection was closed without a word"
                if isinstance(error, EOFError)
                else f"its connection broke ({error})"
            )
            self._lose(
                rank, f"{self._name(rank)} was lost: {what}. It was killed, or crashed, or ended without closing"
            )

    def _do(self, rank: int, worker: _Worker, message: ControlMessage) -> None:
        said = message.header
        if "step" in said and said["step"] != worker.step:
            worker.step, worker.step_at, worker.waits_for = said["step"], time.monotonic(), []
        if said["do"] == "gather":
            # After something has gone wrong all are told so, and a result as well would hide it from who waits for one.
            if not self._has_failed:
                self._gather(rank, message)
        elif said["do"] == "failed":
            self._lose(rank, f"{self._name(rank)} failed: {said['text']}", tells_it=False)
            worker.channel.send({"do": "heard"})
        elif said["do"] == "stalled":
            worker.waits_for = list(said["ranks"])
        elif said["do"] == "bye":
            worker.ended_at_step = worker.step
            worker.channel.send({"do": "over"})

    def _lose(self, rank: int, text: str, *, tells_it: bool = True) -> None:
        self._workers[rank].is_lost = True
        self._fail(text, [rank], but=None if tells_it else rank)

    def _fail(self, text: str, ranks: Iterable[int] = (), *, but: int | None = None) -> None:
        """Tell all what has gone wrong first.

        Args:
            text: what it is.
            ranks: whose fault it is; none if it is nobody's in particular.
            but: a worker that knows already.
        """
        if not self._has_failed:
            self._has_failed = True
            if self._close_by is not None:
                logger.error(f"Cluster: after worker 0 had ended, {text}")
            self._tell_all({"do": "lost", "text": text, "ranks": sorted(ranks)}, but=but)

    def _tell_all(self, header: dict[str, object], data: bytes = b"", *, but: int | None = None) -> None:
        for rank, worker in self._workers.items():
            if worker.channel.fileno() >= 0 and rank != but:
                worker.channel.send(header, data)

    def _flush(self) -> None:
        # Worker 0 itself comes last: it may end this process as soon as it has heard, and the others are to hear too.
        for rank, worker in sorted(self._workers.items(), key=lambda entry: entry[0], reverse=True):
            if worker.channel.fileno() < 0:
                continue
            try:
                worker.channel.flush()
            except OSError as error:
                self._let_go(rank, error)
            else:
                if worker.channel.events != worker.events:
                    worker.events = worker.channel.events
                    self._selector.modify(worker.channel, worker.events, rank)

    # Exchanges.

    def _gather(self, rank: int, message: ControlMessage) -> None:
        said = message.header
        exchange = self._exchange
        if exchange is None:
            limit = float(said["limit"])
            exchange = _Exchange(said["number"], said["topic"], time.monotonic() + limit, limit)
            self._exchange = exchange
        exchange.values[rank] = message.data
        exchange.topics[rank] = said["topic"]
        if len(set(exchange.topics.values())) > 1 or said["number"] != exchange.number:
            where = ", ".join(f"worker {each} is in {topic!r}" for each, topic in sorted(exchange.topics.items()))
            self._fail(f"the workers do not exchange the same: {where}. Wanted the same calls in the same order in all")
        elif len(exchange.values) == self._point.size:
            values = [exchange.values[each] for each in range(self._point.size)]
            header = {"do": "result", "number": exchange.number, "sizes": [len(value) for value in values]}
            self._exchange = None
            self._tell_all(header, b"".join(values))

    # What is due.

    def _look(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if worker.channel.fileno() >= 0 and not worker.channel.has_unsent:
                self._beat(worker, now)
        if self._has_failed:
            return
        for look in (self._look_for_missing, self._look_for_silent, self._look_at_exchange, self._look_at_steps):
            look(now)

    def _beat(self, worker: _Worker, now: float) -> None:
        if now >= worker.beat_at:
            worker.beat_at = now + self._limits.beat_secs
            worker.channel.send({"do": "beat"})

    def _look_for_missing(self, now: float) -> None:
        if self._is_complete or now < self._deadline:
            return
        absent = sorted(set(range(self._point.size)) - self._workers.keys())
        refused = f". Refused were {'; '.join(dict.fromkeys(self._door.refused))}" if self._door.refused else ""
        self._fail(
            f"of {self._point.size} workers {len(absent)} did not come within {self._limits.timeout_secs:g} s: "
            f"{named(absent)}{refused}",
            absent,
        )

    def _look_for_silent(self, now: float) -> None:
        for rank, worker in self._workers.items():
            if worker.is_here and now > worker.channel.heard_at + self._limits.heartbeat_secs:
                self._lose(
                    rank,
                    f"{self._name(rank)} was lost: it has said nothing for {self._limits.heartbeat_secs:g} s. It is "
                    "stopped, or hangs, or is cut off from worker 0",
                )

    def _look_at_exchange(self, now: float) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        missing = [rank for rank in self._training if rank not in exchange.values]
        ended = [rank for rank in missing if self._workers[rank].ended_at_step is not None]
        if ended:
            self._fail(
                f"{workers(ended)} ended after step {self._workers[ended[0]].ended_at_step}, and "
                f"{workers(exchange.values)} wait in {exchange.topic!r}: expected the same number of steps and "
                "the same "
                "calls in all"
            )
        elif now > exchange.deadline:
            self._fail(
                f"{workers(missing)} did not come to {exchange.topic!r} within {exchange.limit_secs:g} s, where "
                f"{workers(exchange.values)} waited; {self._steps_of(missing)}",
                missing,
            )
        elif now > exchange.began + self._limits.straggler_secs:
            self._warn(missing, exchange.topic, f"wait in {exchange.topic!r}", now - exchange.began)

    def _look_at_steps(self, now: float) -> None:
        here = {rank: worker for rank, worker in self._training.items() if worker.is_here}
        furthest = max((worker.step for worker in here.values()), default=0)
        ended = {rank: worker.ended_at_step for rank, worker in self._training.items()}
        short = [rank for rank, step in ended.items() if step is not None and step < furthest]
        if short:
            ahead = [rank for rank, worker in here.items() if worker.step > (ended[short[0]] or 0)]
            self._fail(
                f"worker {short[0]} ended after step {ended[short[0]]}, and {workers(ahead)} went on to step "
                f"{furthest}: expected the same number of steps in all"
            )
            return
        late = now - self._limits.straggler_secs
        slow = {rank for rank, worker in here.items() if worker.step < furthest and worker.step_at < late}
        others = f"are in step {furthest}"
        if not slow:
            # All are in one step: those are slow that others wait for, and who do not wait for anybody themselves.
            slow = {rank for worker in here.values() for rank in worker.waits_for if rank in here}
            # What each waits for comes a little later than its step.
            late -= self._limits.heartbeat_secs
            slow = {rank for rank in slow if not here[rank].waits_for and here[rank].step_at < late}
            others = "wait for it"
        if slow and self._exchange is None:
            first = min(slow, key=lambda rank: here[rank].step_at)
            self._warn(sorted(slow), f"step {here[first].step}", others, now - here[first].step_at)

    def _warn(self, ranks: list[int], where: str, others: str, secs: float) -> None:
        """Name those that others wait for, once for each place."""
        fresh = [rank for rank in ranks if (rank, where) not in self._warned]
        if not fresh:
            return
        self._warned |= {(rank, where) for rank in fresh}
        text = f"{workers(fresh)} made no step for {secs:.0f} s, and the others {others}; {self._steps_of(fresh)}"
        self._tell_all({"do": "slow", "text": text, "ranks": fresh})

    def _steps_of(self, ranks: Iterable[int]) -> str:
        return ", ".join(f"worker {rank} is in step {self._workers[rank].step}" for rank in ranks)


def workers(ranks: Iterable[int]) -> str:
    """Return ranks in words."""
    found = sorted(ranks)
    return f"worker {found[0]}" if len(found) == 1 else f"workers {named(found)}"


def named(ranks: list[int]) -> str:
    """Return the first of many numbers in words."""
    return ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")
