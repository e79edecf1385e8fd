"""Server of the control channel, in worker 0: heartbeats, exchanges, and detection of lost and slow workers.

Every worker has one connection to it, worker 0 included, and so has every parameter server, which is only watched: its
rank comes after those of the workers. One thread serves all of them:

    client -> server: beat (its step)      heartbeat, four times in the heartbeat timeout
                      gather (values)      an exchange; when the last worker's have arrived, each gets all values
                      failed (why)         the worker ends with an error; if that is NaN, also since which step its own
                                           part is not finite: the first one is at fault
                      stalled (ranks)      the worker waits in a step for others
                      bye (its last step)  an orderly end
    server -> client: beat, result, slow (stragglers), lost (the first error, and the ranks that caused it), over

The first error is sent to all, once; nothing is exchanged after it.
"""

import contextlib
import math
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tpack.multi_worker.control.handshake import Admission, Newcomer, Rejected, RendezvousOptions, first_ranks, proof
from tpack.multi_worker.control.messages import (
    Channel,
    ControlMessage,
    Timeouts,
    Waker,
    framed,
    lost_connection,
    result_of,
    silent_peer,
)
from tpack.utils import logger

FAREWELL_SECS = 2.0
"""How long the channel stays open after an error, so that it reaches all workers."""

VERDICT_SECS = 3.0
"""How long a worker that has found NaN is not yet the one that failed, since others may have been the origin."""

LOOK_SECS = 250e-6
"""The time between two looks at the deadlines of all workers, for each of them: a look takes about 2 us for each."""


@dataclass
class _Worker:
    """State of a worker in the server."""

    channel: Channel
    # The nonce of its handshake.
    number: str | None = None
    step: int = 0
    step_at: float = field(default_factory=time.monotonic)
    waits_for: list[int] = field(default_factory=list)
    is_in_step: bool = False
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
    """One exchange of values, from the first worker's to the last's."""

    number: int
    topic: str
    deadline: float
    limit_secs: float
    began: float = field(default_factory=time.monotonic)
    values: dict[int, bytes] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)


class ControlServer:
    """Server of the workers, in a thread of its own.

    Raises:
        ClusterError: It cannot listen at the address of the options.
    """

    def __init__(self, options: RendezvousOptions, timeouts: Timeouts) -> None:
        self._options = options
        self._timeouts = timeouts
        self._deadline = time.monotonic() + timeouts.timeout_secs
        self._workers: dict[int, _Worker] = {}
        self._exchange: _Exchange | None = None
        self._has_failed = False
        self._is_complete = False
        self._warned: set[tuple[int, str]] = set()
        self._close_by: float | None = None
        self._not_finite: dict[int, tuple[float, str]] = {}
        self._verdict_at = math.inf
        self._awaited_since: dict[int, float] = {}
        self._num_training = 0
        self._with_unsent: set[int] = set()
        self._look_at = 0.0
        self._has_news = False
        self._selector = selectors.DefaultSelector()
        try:
            self._admission = Admission(options, self._deadline, self._selector, self._admit)
        except BaseException:
            self._selector.close()
            raise
        self._waker = Waker()
        self._selector.register(self._waker, selectors.EVENT_READ, self._waker.clear)
        self._thread = threading.Thread(target=self._serve, name="control server", daemon=True)

    def start(self) -> socket.socket:
        """Start the thread; return worker 0's own connection."""
        ours, theirs = socket.socketpair()
        self._add(0, _Worker(Channel(theirs, self._timeouts.largest)))
        self._thread.start()
        return ours

    def close(self, secs: float) -> None:
        """Wait, for a limited time, until all workers have ended, and stop serving."""
        self._close_by = time.monotonic() + secs
        self._waker.wake()
        self._thread.join()

    # The thread.

    def _serve(self) -> None:
        last_word: dict[str, object] | None = {"do": "over"}
        try:
            self._loop()
            if self._has_failed:
                last_word = None
        except BaseException as error:
            # Without heartbeats and exchanges the others could go on for long, and would lose worker 0 by its silence.
            text = f"worker 0 was lost: its control server ended by an error ({type(error).__name__}: {error})"
            last_word = {"do": "lost", "text": text, "ranks": [0]}
            raise
        finally:
            for worker in self._workers.values():
                if worker.channel.fileno() >= 0 and last_word is not None:
                    # Parameter servers end when they receive it.
                    worker.channel.send(last_word)
                    with contextlib.suppress(OSError):
                        worker.channel.flush()
                worker.channel.close()
            self._admission.close()
            self._selector.close()
            self._waker.close()

    def _loop(self) -> None:
        looked_at = time.monotonic()
        while not self._is_over():
            ready = self._selector.select(self._wait_secs())
            self._note_pause(time.monotonic() - looked_at)
            for key, _ in ready:
                key.data()
            looked_at = time.monotonic()
            self._has_news |= bool(ready)
            if looked_at >= self._look_at:
                self._has_news = False
                self._check_deadlines()
                self._look_at = time.monotonic() + LOOK_SECS * len(self._workers)
            self._flush()

    @property
    def _training(self) -> dict[int, _Worker]:
        """The workers, without parameter servers, by rank."""
        return {rank: worker for rank, worker in self._workers.items() if rank < self._options.size}

    def _name(self, rank: int) -> str:
        return f"worker {rank}" if rank < self._options.size else f"ps {rank - self._options.size}"

    def _is_over(self) -> bool:
        if self._close_by is None:
            return False
        # After an error, only messages that are not sent yet are waited for.
        is_open = any(
            worker.channel.fileno() >= 0 and (worker.channel.has_unsent or not self._has_failed)
            for rank, worker in self._workers.items()
            if rank < self._options.size
        )
        return not is_open or time.monotonic() > self._close_by

    def _wait_secs(self) -> float:
        due = [] if self._close_by is None else [self._close_by]
        if not self._has_failed:
            due += [] if self._is_complete else [self._deadline]
            due += [self._verdict_at] if self._exchange is None else [self._verdict_at, self._exchange.deadline]
        due += [self._look_at] if self._has_news else []
        return max(min(self._timeouts.beat_secs / 2, min(due, default=math.inf) - time.monotonic()), 0.0)

    def _note_pause(self, secs: float) -> None:
        """Restart the heartbeat timeouts if this process itself was stopped, or got no CPU time, for ``secs``."""
        if secs > self._timeouts.heartbeat_secs and len(self._workers) > 1:
            text = f"worker 0 was stopped, or got no CPU time, for {secs:.1f} s, so that the others have given it up"
            self._fail(text, [0])
        if secs > self._timeouts.heartbeat_secs / 2:
            for worker in self._workers.values():
                worker.channel.heard_at = time.monotonic()

    # Admission.

    def _admit(self, newcomer: Newcomer) -> None:
        """Add a worker, which may be connected once at a time."""
        rank, hello = newcomer.rank, newcomer.hello
        if hello["for"] == "rendezvous":
            raise Rejected(
                f"the {self._options.size} workers of this job have met already, worker {rank} among them: it is a "
                "duplicate or late, or another job has the port; a worker cannot rejoin while the others go on"
            )
        connected = self._workers.get(rank)
        if connected is not None:
            # It starts its next training while others still leave the last. Where a training has failed, the channel
            # may have closed before its end was read here.
            has_left = hello.get("left") is not None and hello["left"] == connected.number
            if connected.ended_at_step is not None or has_left:
                raise Rejected("again")
            raise Rejected(f"worker {rank} is connected already: this is a duplicate, or another job has the port")
        answer = {"let_in": rank}
        newcomer.channel.send({**answer, "proof": proof(self._options.secret, "control", *newcomer.numbers, answer)})
        newcomer.channel.flush()
        newcomer.channel.allow(self._timeouts.largest)
        newcomer.channel.heard_at = time.monotonic()
        self._add(rank, _Worker(newcomer.channel, newcomer.numbers[0]))

    def _add(self, rank: int, worker: _Worker) -> None:
        self._workers[rank] = worker
        self._selector.register(worker.channel, worker.events, partial(self._receive, rank))
        self._num_training += rank < self._options.size
        if self._is_complete:
            self._send(rank, {"do": "complete"})
        elif self._num_training == self._options.size:
            self._is_complete = True
            self._send_all({"do": "complete"})

    # Messages.

    def _receive(self, rank: int) -> None:
        worker = self._workers[rank]
        try:
            for message in worker.channel.receive():
                self._do(rank, worker, message)
        except Exception as error:
            self._disconnect(rank, error)

    def _disconnect(self, rank: int, error: Exception) -> None:
        worker = self._workers[rank]
        self._selector.unregister(worker.channel)
        worker.channel.close()
        if worker.is_here:
            self._lose([rank], lost_connection(self._name(rank), error))

    def _do(self, rank: int, worker: _Worker, message: ControlMessage) -> None:
        header = message.header
        worker.is_in_step = bool(header.get("in_step"))
        if "step" in header and header["step"] != worker.step:
            worker.step, worker.step_at, worker.waits_for = header["step"], time.monotonic(), []
        if header["do"] == "gather":
            # After an error all get that, and a result as well would hide it.
            if not self._has_failed:
                self._gather(rank, message)
        elif header["do"] == "failed" and "since" in header and not self._has_failed:
            worker.is_lost = True
            self._verdict_at = min(self._verdict_at, time.monotonic() + VERDICT_SECS)
            since = int(header["since"])
            self._not_finite[rank] = since if since >= 0 else math.inf, f"{self._name(rank)} failed: {header['text']}"
        elif header["do"] == "failed":
            self._lose([rank], f"{self._name(rank)} failed: {header['text']}", has_reported=True)
        elif header["do"] == "stalled":
            worker.waits_for = list(header["ranks"])
        elif header["do"] == "bye":
            worker.ended_at_step = worker.step
            self._send(rank, {"do": "over"})

    def _lose(self, ranks: Sequence[int], text: str, *, has_reported: bool = False) -> None:
        for rank in ranks:
            self._workers[rank].is_lost = True
        self._fail(text, ranks, but=ranks if has_reported else ())
        for rank in ranks if has_reported else ():
            if self._workers[rank].channel.fileno() >= 0:
                self._send(rank, {"do": "heard"})

    def _find_origin(self, now: float) -> None:
        """Name the worker whose part was the first that was not finite, once all have reported, or time is over."""
        is_complete = not any(worker.is_here for worker in self._training.values())
        if not self._not_finite or (now < self._verdict_at and not is_complete):
            return
        first = min(since for since, _ in self._not_finite.values())
        ranks = [rank for rank, (since, _) in self._not_finite.items() if since == first]
        text = self._not_finite[ranks[0]][1]
        if len(ranks) < len(self._not_finite):
            text = f"{text}. NaN or infinity was in its own cost or gradients first, and came to the others by the sums"
        self._lose(ranks, text, has_reported=True)

    def _fail(self, text: str, ranks: Iterable[int] = (), *, but: Sequence[int] = ()) -> None:
        """Send the first error, and the ranks that caused it if they are known, to all but those that reported it."""
        if not self._has_failed:
            self._has_failed = True
            # The messages may be queued while others are flushed: the loop comes back for them at once.
            self._has_news, self._look_at = True, 0.0
            if self._close_by is not None:
                logger.error(f"Cluster: after worker 0 had ended, {text}")
            self._send_all({"do": "lost", "text": text, "ranks": sorted(ranks)}, but=but)

    def _send(self, rank: int, header: dict[str, object]) -> None:
        self._workers[rank].channel.send(header)
        self._with_unsent.add(rank)

    def _send_all(self, header: dict[str, object], *, but: Sequence[int] = ()) -> None:
        self._put_all(framed(header), but)

    def _put_all(self, parts: Sequence[bytes], but: Sequence[int] = ()) -> None:
        for rank, worker in self._workers.items():
            if worker.channel.fileno() >= 0 and rank not in but:
                worker.channel.put(parts)
                self._with_unsent.add(rank)

    def _flush(self) -> None:
        # Worker 0 itself is last: it may end this process as soon as it has the message.
        for rank in sorted(self._with_unsent, reverse=True):
            worker = self._workers[rank]
            if worker.channel.fileno() < 0:
                self._with_unsent.discard(rank)
                continue
            try:
                worker.channel.flush()
            except OSError as error:
                self._disconnect(rank, error)
            else:
                if not worker.channel.has_unsent:
                    self._with_unsent.discard(rank)
                if worker.channel.events != worker.events:
                    worker.events = worker.channel.events
                    self._selector.modify(worker.channel, worker.events, partial(self._receive, rank))

    # Exchanges.

    def _gather(self, rank: int, message: ControlMessage) -> None:
        header = message.header
        exchange = self._exchange
        if exchange is None:
            limit = float(header["limit"])
            exchange = _Exchange(header["number"], header["topic"], time.monotonic() + limit, limit)
            self._exchange = exchange
        exchange.values[rank] = message.data
        exchange.topics[rank] = header["topic"]
        if header["topic"] != exchange.topic or header["number"] != exchange.number:
            where = ", ".join(f"worker {each} is in {topic!r}" for each, topic in sorted(exchange.topics.items()))
            self._fail(
                f"the workers do not exchange the same: {where}. Expected the same calls in the same order in all"
            )
        elif len(exchange.values) == self._options.size:
            values = [exchange.values[each] for each in range(self._options.size)]
            self._exchange = None
            self._put_all(result_of(exchange.number, values))

    # Deadlines.

    def _check_deadlines(self) -> None:
        now, silence_secs = time.monotonic(), self._timeouts.heartbeat_secs
        for rank, worker in self._workers.items():
            if worker.channel.fileno() >= 0 and not worker.channel.has_unsent and now >= worker.beat_at:
                worker.beat_at = now + self._timeouts.beat_secs
                self._send(rank, {"do": "beat"})
        self._admission.check_deadlines(now)
        if self._has_failed:
            return
        if not self._is_complete and now >= self._deadline:
            limit = f"did not come within {self._timeouts.timeout_secs:g} s"
            self._fail(*self._admission.missing(self._workers, limit))
        for rank, worker in self._workers.items():
            if worker.is_here and now > worker.channel.heard_at + silence_secs:
                self._lose([rank], silent_peer(self._name(rank), silence_secs, "worker 0"))
        self._find_origin(now)
        self._check_exchange(now)
        self._check_steps(now)

    def _check_exchange(self, now: float) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        missing = [rank for rank in self._training if rank not in exchange.values]
        ended = [rank for rank in missing if self._workers[rank].ended_at_step is not None]
        if ended:
            self._fail(
                f"{workers(ended)} ended after step {self._workers[ended[0]].ended_at_step}, and "
                f"{workers(exchange.values)} wait in {exchange.topic!r}: expected the same number of steps and the "
                "same calls in all"
            )
        elif now > exchange.deadline:
            self._fail(
                f"{workers(missing)} did not come to {exchange.topic!r} within {exchange.limit_secs:g} s, where "
                f"{workers(exchange.values)} waited; {self._steps_of(missing)}",
                missing,
            )
        elif now > exchange.began + self._timeouts.straggler_secs:
            self._warn(missing, exchange.topic, f"wait in {exchange.topic!r}", now - exchange.began)

    def _check_steps(self, now: float) -> None:
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
        self._check_stragglers(now, here, furthest)
        self._check_stuck(now, here, furthest)

    def _check_stuck(self, now: float, here: dict[int, _Worker], furthest: int) -> None:
        """Lose a worker that does not leave a step for which others have waited for too long."""
        awaited = {rank for worker in here.values() for rank in worker.waits_for if rank in here}
        exchange = self._exchange
        for rank, worker in here.items():
            is_late = worker.step < furthest or (exchange is not None and rank not in exchange.values)
            if is_late and worker.is_in_step:
                awaited.add(rank)
        # A run of many steps is one to the channel: only the time in which nothing happened counts.
        since = self._awaited_since
        self._awaited_since = {rank: since.get(rank, now) for rank in awaited if not here[rank].waits_for}
        limit_secs = max(self._timeouts.step_timeout_secs, self._timeouts.straggler_secs)
        stuck = [rank for rank, begin in self._awaited_since.items() if now > begin + limit_secs]
        if stuck:
            self._lose(
                stuck,
                f"{workers(stuck)} was lost: the others have waited for its part of step {here[stuck[0]].step} for "
                f"{limit_secs:g} s (step_timeout_secs). It hangs in the step, such as in its data or a py_func",
            )

    def _check_stragglers(self, now: float, here: dict[int, _Worker], furthest: int) -> None:
        """Name workers that others wait for."""
        late = now - self._timeouts.straggler_secs
        slow = {rank for rank, worker in here.items() if worker.step < furthest and worker.step_at < late}
        others = f"are in step {furthest}"
        if not slow:
            # All are in one step: the slow ones are waited for, and do not wait themselves.
            slow = {rank for worker in here.values() for rank in worker.waits_for if rank in here}
            # Reports of waiting arrive a little later than the step.
            late -= self._timeouts.heartbeat_secs
            slow = {rank for rank in slow if not here[rank].waits_for and here[rank].step_at < late}
            others = "wait for it"
        if slow and self._exchange is None:
            first = min(slow, key=lambda rank: here[rank].step_at)
            self._warn(sorted(slow), f"step {here[first].step}", others, now - here[first].step_at)

    def _warn(self, ranks: list[int], where: str, others: str, secs: float) -> None:
        """Name stragglers, once for each place."""
        fresh = [rank for rank in ranks if (rank, where) not in self._warned]
        if not fresh:
            return
        self._warned |= {(rank, where) for rank in fresh}
        text = f"{workers(fresh)} made no step for {secs:.0f} s, and the others {others}; {self._steps_of(fresh)}"
        self._send_all({"do": "slow", "text": text, "ranks": fresh})

    def _steps_of(self, ranks: Iterable[int]) -> str:
        return ", ".join(f"worker {rank} is in step {self._workers[rank].step}" for rank in ranks)


def workers(ranks: Iterable[int]) -> str:
    """Return a list of workers as text."""
    found = sorted(ranks)
    return f"worker {found[0]}" if len(found) == 1 else f"workers {first_ranks(found)}"
