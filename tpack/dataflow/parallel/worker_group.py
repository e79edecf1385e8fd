"""The workers of one flow in the process that owns them: their messages and their ends.

Each worker has its own channels, so that a dying one leaves nothing locked. A flow has its workers through
`OwnedWorkers`: ``reset_state`` starts them, they end with the flow, and pickling leaves them out.
"""

import contextlib
import math
import os
import select
import signal
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.receiver import Message, Receiver
from tpack.dataflow.parallel.sender import Sender
from tpack.dataflow.parallel.slots import PeerGoneError, Record
from tpack.dataflow.parallel.worker import (
    Payload,
    Serve,
    StartMethod,
    Task,
    current_start_method,
    run_spawned_worker,
    run_worker,
    with_streaming_stores,
    write_payload,
)
from tpack.errors import ConfigError, DataWorkerError, InputError
from tpack.utils import logger
from tpack.utils.child_process import Child, Failure, cause_of_death, check_fork, fork_child, spawn_child
from tpack.utils.rng import get_rng
from tpack.utils.validation import is_number, shown

_DEATH_SECS = 5.0
# More time for the start of a worker: of Python, and of the imports of the flow.
_START_SECS = 60.0

_SEEDS = 2**31


class OwnedWorkers:
    """The workers of one flow, once they are started; refuse a timeout that is neither None nor a positive number."""

    def __init__(self, owner: object, timeout: float | None) -> None:
        self._owner = type(owner).__name__
        if timeout is not None and not (is_number(timeout) and 0 < timeout < math.inf):
            raise ConfigError(f"{self._owner} got timeout={shown(timeout)}: expected a positive number or None")
        self._timeout = timeout
        self._start_method: StartMethod = current_start_method()
        self._group: WorkerPool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_group": None}

    def start(self, serve: Serve, arguments: tuple[Any, ...], *, count: int, results: int, jobs: int) -> "WorkerPool":
        """End the present workers, and start ``count`` new ones, each with room for ``results`` and ``jobs``.

        Unused forks are kept: a flow is reset again in the thread of an input source, where forking may be unsafe.
        """
        if self._start_method == "fork" and self._group is not None and self._group.is_unused:
            return self._group
        self.end()
        seed = int(get_rng(self).randint(_SEEDS))
        options = GroupOptions(count, results, jobs, self._timeout, self._start_method, seed)
        self._group = WorkerPool(self._owner, serve, arguments, options)
        return self._group

    def end(self) -> None:
        """End the workers, if there are any."""
        if self._group is not None:
            self._group.close()

    def group(self) -> "WorkerPool":
        """Return the workers; raise InputError before a start, DataFlowTerminated after an end."""
        if self._group is None:
            raise InputError(f"{self._owner} has no workers yet: call reset_state() once before iterating it")
        if self._group.is_closed:
            raise DataFlowTerminated(f"the workers of {self._owner} were ended: use reset_state() to start new ones")
        return self._group


@dataclass(frozen=True)
class GroupOptions:
    """Options of a group of workers.

    Attributes:
        num_workers: their number.
        results: the number of waiting data points of a worker.
        jobs: the number of waiting data points for a worker.
        timeout: seconds after which a started worker that is expected to send counts as hanging; None is never, with a
            warning in the log.
        start_method: how they are started.
        seed: the seed of their random numbers; worker k has ``seed + k``.
        warn_secs: seconds of such silence until the log has a warning, repeated each time they have doubled.
    """

    num_workers: int
    results: int
    jobs: int
    timeout: float | None
    start_method: StartMethod
    seed: int
    warn_secs: float = 60.0


class WorkerPool:
    """Running workers, until ``close`` is called, the group is garbage collected, or this process ends.

    Raises:
        ConfigError: The arguments cannot be pickled, or a fork would be dangerous.
    """

    # One worker, as its group sees it. Each state in brackets closes the group: all workers are ended.
    #
    #                           expect(is_expected=False)
    #     starting --READY--> expected -----------> idle     what an idle one says is received, too
    #        |                   |     <-----------   |
    #        |                   |      expect(True)  |
    #        +-- silent for -----+                    |      [hangs]   "has said nothing for"
    #        |   timeout, and 60 s more before READY  |
    #        |                   |                    |
    #        +-------------------+--------------------+      [dead]    end of the socket or of the process:
    #        |                   |                    |                "was killed by", "ended with exit code"
    #        +-------------------+--------------------+      [failed]  FATAL: "raised", with its traceback

    def __init__(self, owner: str, serve: Serve, arguments: tuple[Any, ...], options: GroupOptions) -> None:
        self._owner = owner
        self._timeout = options.timeout
        self._warn_secs = options.warn_secs
        self._members = _Members()
        self._finalizer = weakref.finalize(self, self._members.end)
        try:
            self._members.start(owner, serve, arguments, options)
        except BaseException:
            self.close()
            raise
        self._is_used = False
        self.senders = self._members.senders
        self._receivers = self._members.receivers
        # Workers that are expected to send, and the time of the last message of each.
        self._expected = set(range(options.num_workers))
        self._silent_since = [time.monotonic()] * options.num_workers
        # Seconds of silence until a warning.
        self._patience = [self._warn_secs] * options.num_workers
        self._begun: set[int] = set()
        self._ready: deque[int] = deque()
        self._poll = select.poll()
        self._index_of: dict[int, int] = {}
        for index, (receiver, child) in enumerate(zip(self._receivers, self._members.children, strict=True)):
            for descriptor in (receiver.fileno(), child.sentinel):
                if descriptor is not None:
                    self._poll.register(descriptor, select.POLLIN)
                    self._index_of[descriptor] = index

    def close(self) -> None:
        """End the workers in any state; another thread that waits for them gets an error."""
        self._finalizer()

    @property
    def is_closed(self) -> bool:
        """Whether the workers were ended."""
        return not self._finalizer.alive

    @property
    def is_unused(self) -> bool:
        """Whether they run, have sent nothing, and were not asked for anything."""
        return not (self._is_used or self.is_closed)

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [child.pid for child in self._members.children]

    def name_of(self, index: int) -> str:
        """Return the name of a worker."""
        return f"worker {index} (process {self.pids[index]}) of {self._owner}"

    def expect(self, index: int, *, is_expected: bool) -> None:
        """Set whether a worker is expected to send, so that its silence is an error."""
        self._is_used |= is_expected
        if is_expected and index not in self._expected:
            self._expected.add(index)
            if index in self._begun:
                self._begin_silence(index)
        elif not is_expected:
            self._expected.discard(index)

    def receive(self) -> tuple[int, Message]:
        """Return the next message of any worker, in turn, and the worker's index.

        Raises:
            DataWorkerError: A worker is dead or failed for good, or was silent for too long; all are ended.
        """
        index, message = self._take()
        while message.kind == Record.READY:
            self._begun.add(index)
            index, message = self._take()
        if message.kind == Record.FATAL:
            error = worker_error(self.name_of(index), message.points[0])
            self.close()
            raise error
        return index, message

    def _take(self) -> tuple[int, Message]:
        self._is_used = True
        while not self._ready:
            self._wait()
        index = self._ready.popleft()
        message = self._receivers[index].take()
        if self._receivers[index].has_message:
            self._ready.append(index)
        self._begin_silence(index)
        return index, message

    def cancel(self, index: int, number: int) -> None:
        """Cancel a worker's pass, up to the command of that number; its earlier messages still come."""
        self._is_used = True
        self._receivers[index].cancel(number)

    def command(self, index: int, command: object) -> None:
        """Send a worker another object than a data point; raise DataWorkerError if it is dead."""
        try:
            self.senders[index].send(Record.COMMAND, command)
        except PeerGoneError:
            self.bury(index)

    def wait_for_room(self, index: int) -> None:
        """Wait until a worker has read some of its data points; raise DataWorkerError if it is dead or hangs."""
        poll = select.poll()
        sentinel = self._members.children[index].sentinel
        for descriptor in (self.senders[index].fileno(), sentinel):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        self.expect(index, is_expected=True)
        while not (events := poll.poll(self._patience_ms())):
            self._check_silence()
        self.expect(index, is_expected=False)
        if any(descriptor == sentinel for descriptor, _ in events):
            self.bury(index)

    def bury(self, index: int) -> NoReturn:
        """End all workers; raise DataWorkerError with the dead one's reason, by its last message if there is one."""
        if self.is_closed:
            raise DataWorkerError(f"the workers of {self._owner} were ended")
        name = self.name_of(index)
        code = self._members.children[index].exit_code(_DEATH_SECS)
        failure = self._last_words(index)
        self.close()
        raise worker_error(name, failure) if failure else DataWorkerError(f"{name} {cause_of_death(code)}")

    def _last_words(self, index: int) -> Failure | None:
        """Return the last message of a dead worker, after all unread ones."""
        receiver = self._receivers[index]
        while receiver.has_message or (receiver.fill(wait=False) and receiver.has_message):
            message = receiver.take()
            if message.kind == Record.FATAL:
                return message.points[0]
        return None

    def _wait(self) -> None:
        for receiver in self._receivers:
            receiver.return_ended()
        events = [] if self.is_closed else self._poll.poll(self._patience_ms())
        if self.is_closed:
            raise DataWorkerError(f"the workers of {self._owner} were ended")
        for index in sorted({self._index_of[descriptor] for descriptor, _ in events}):
            receiver = self._receivers[index]
            is_open = receiver.fill(wait=False)
            sentinel = self._members.children[index].sentinel
            if receiver.has_message:
                self._ready.append(index)
            elif not is_open or any(descriptor == sentinel for descriptor, _ in events):
                self.bury(index)
        self._check_silence()

    def _begin_silence(self, index: int) -> None:
        self._silent_since[index] = time.monotonic()
        self._patience[index] = self._warn_secs

    def _patience_ms(self) -> float | None:
        """Return the time until the silence of a worker needs a warning or an error."""
        if not self._expected:
            return None
        deadline = min(self._silent_since[index] + self._limit_of(index)[0] for index in self._expected)
        return max(0, math.ceil((deadline - time.monotonic()) * 1000))

    def _check_silence(self) -> None:
        """Raise if a worker was silent for too long; without a limit, log a warning."""
        now = time.monotonic()
        for index in self._expected - set(self._ready):
            silence = now - self._silent_since[index]
            limit, is_last = self._limit_of(index)
            if silence < limit:
                continue
            name = self.name_of(index)
            if is_last:
                self.close()
                raise DataWorkerError(f"{name} hangs: it was silent for {silence:.1f} s (timeout={self._timeout})")
            self._patience[index] *= 2
            logger.warning(
                f"Still waiting for {name}, silent for {silence:.0f} s: slow, stopped, or hanging; use timeout=... to "
                "make that an error"
            )

    def _limit_of(self, index: int) -> tuple[float, bool]:
        """Return the longest silence of a worker until something is done, and whether that is an error."""
        extra = 0 if index in self._begun else _START_SECS
        timeout = math.inf if self._timeout is None else self._timeout
        return min(timeout, self._patience[index]) + extra, timeout <= self._patience[index]


class _Members:
    """The processes of a group and their channels, apart from the group so that they can be ended after it."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []

    def start(self, owner: str, serve: Serve, arguments: tuple[Any, ...], options: GroupOptions) -> None:
        """Start the processes; arguments and exceptions are those of `WorkerPool`."""
        work = serve, arguments
        with contextlib.ExitStack() as stack:
            payload = None
            if options.start_method == "fork":
                check_fork(owner)
            else:
                try:
                    payload = stack.enter_context(write_payload(owner, work))
                except ConfigError as error:
                    if len(threading.enumerate()) > 1:
                        raise
                    logger.warning(f"{error}. Forks of this process are started instead, as in tensorpack")
            for index in range(options.num_workers):
                name, seed = f"{owner}-{index}", (options.seed + index) % 2**32
                with self._channels(options, seed) as task:
                    child = _spawn(name, task, payload) if payload is not None else self._fork(name, task, work)
                    self.children.append(child)

    @contextlib.contextmanager
    def _channels(self, options: GroupOptions, seed: int) -> Iterator[Task]:
        """Make the channels of one worker, whose ends are closed here at the end of the block."""
        results_here, results_there = socket.socketpair()
        jobs_here, jobs_there = socket.socketpair()
        self.receivers.append(Receiver(results_here))
        self.senders.append(Sender(jobs_here, options.jobs, has_flusher=False))
        with results_there, jobs_there:
            yield Task(options.results, seed, results_there.fileno(), jobs_there.fileno())

    def _fork(self, name: str, task: Task, work: tuple[Serve, tuple[Any, ...]]) -> Child:
        """Start a fork, which must not hold the ends of this process."""
        ends = [receiver.fileno() for receiver in self.receivers] + [sender.fileno() for sender in self.senders]
        of_others = [descriptor for child in self.children for descriptor in child.descriptors]
        return fork_child(lambda: run_worker(task, lambda: work), name=name, close=[*ends, *of_others])

    def end(self) -> None:
        """End the processes; in a fork of their owner they go on."""
        for child in self.children:
            child.signal(signal.SIGTERM)
        for child in self.children:
            child.end()
        for receiver in self.receivers:
            receiver.close()
        for sender in self.senders:
            sender.close()


def _spawn(name: str, task: Task, payload: Payload) -> Child:
    return spawn_child(
        run_spawned_worker,
        {"task": asdict(task), "payload": asdict(payload)},
        name=name,
        descriptors=(task.results, task.jobs, payload.descriptor),
        environment=with_streaming_stores(os.environ),
    )


def worker_error(name: str, failure: Failure) -> DataWorkerError:
    """Return the error to raise for an exception of a worker."""
    return failure.error(DataWorkerError, f"{name} raised")
