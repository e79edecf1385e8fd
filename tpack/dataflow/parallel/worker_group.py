"""The workers of one flow, as the process that owns them sees them: what comes from them, and what becomes of them.

Each worker has channels of its own, so that nothing is shared among them that a dying one could leave locked. Waiting
is waiting for all of them, and for their deaths. A flow has its workers through `OwnedWorkers`: ``reset_state`` starts
them, they are gone with the flow, and they are left out when it is pickled.
"""

import contextlib
import math
import os
import select
import signal
import socket
import time
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.receiver import Message, Receiver
from tpack.dataflow.parallel.sender import Sender
from tpack.dataflow.parallel.slots import Kind, PeerGoneError
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
# What a worker may take longer before it has begun: to start Python, and to import what the flow refers to.
_START_SECS = 60.0

_SEEDS = 2**31


class OwnedWorkers:
    """The workers that one flow has, or has not yet.

    Args:
        owner: the flow, whose name errors and processes have.
        timeout: for how many seconds a worker may say nothing; None is for ever.

    Raises:
        ConfigError: The timeout is neither None nor a positive number.
    """

    def __init__(self, owner: object, timeout: float | None) -> None:
        self._owner = type(owner).__name__
        self._timeout = _check_timeout(self._owner, timeout)
        self._start_method: StartMethod = current_start_method()
        self._group: WorkerPool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_group": None}

    def start(self, serve: Serve, arguments: tuple[Any, ...], *, count: int, results: int, jobs: int) -> "WorkerPool":
        """End the workers that there are, and start new ones.

        Forks that nothing was asked of yet are kept: a flow is reset again in the thread of an input source, where
        forking may be too late, and they are at the beginning anyway.

        Args:
            serve: the function that they run.
            arguments: its arguments after the link.
            count: how many workers.
            results: how many data points of each may wait.
            jobs: how many data points for each may wait.
        """
        if self._start_method == "fork" and self._group is not None and self._group.is_unused:
            return self._group
        self.end()
        seed = int(get_rng(self).randint(_SEEDS))
        options = GroupOptions(count, results, jobs, self._timeout, self._start_method, seed)
        self._group = WorkerPool(self._owner, serve, arguments, options)
        return self._group

    def end(self) -> None:
        """End the workers, if there are some."""
        if self._group is not None:
            self._group.close()

    def group(self) -> "WorkerPool":
        """Return the workers.

        Raises:
            InputError: They have never been started.
            DataFlowTerminated: They have been ended.
        """
        if self._group is None:
            raise InputError(f"{self._owner} has no workers yet: call reset_state() once before iterating it")
        if self._group.is_closed:
            raise DataFlowTerminated(f"the workers of {self._owner} have been ended: reset_state() starts new ones")
        return self._group


def _check_timeout(owner: str, timeout: float | None) -> float | None:
    if timeout is not None and not (is_number(timeout) and 0 < timeout < math.inf):
        raise ConfigError(f"{owner} got timeout={shown(timeout)}: expected a number of seconds, or None")
    return timeout


@dataclass(frozen=True)
class GroupOptions:
    """How to run workers.

    Attributes:
        num_workers: how many.
        results: how many data points of a worker may wait.
        jobs: how many data points for a worker may wait.
        timeout: for how many seconds a worker that has begun may say nothing while something is expected of it; None is
            for ever, and the log says so.
        start_method: how they are started.
        seed: what their random numbers come from; worker k has ``seed + k``.
        warn_secs: after how many seconds of such silence the log says so, and again each time it has doubled.
    """

    num_workers: int
    results: int
    jobs: int
    timeout: float | None
    start_method: StartMethod
    seed: int
    warn_secs: float = 60.0


class WorkerPool:
    """Workers that run, until ``close`` is called, the group is garbage collected, or this process ends.

    Args:
        owner: whose workers they are, for messages.
        serve: the function that they run.
        arguments: its arguments after the link.
        options: how to run them.

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
        # Workers that something is expected of; and since when they said nothing.
        self._expected = set(range(options.num_workers))
        self._silent_since = [time.monotonic()] * options.num_workers
        # For how many seconds each may be silent until the log says so.
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
        """End the workers, whatever they are doing; who waits for them in another thread gets an error."""
        self._finalizer()

    @property
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""
        return not self._finalizer.alive

    @property
    def is_unused(self) -> bool:
        """Whether they run and nothing has come from them, and none was expected anew to answer something."""
        return not (self._is_used or self.is_closed)

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [child.pid for child in self._members.children]

    def name_of(self, index: int) -> str:
        """Return what to call a worker."""
        return f"worker {index} (process {self.pids[index]}) of {self._owner}"

    def expect(self, index: int, *, is_expected: bool) -> None:
        """Say whether something is expected of a worker, so that its silence is wrong."""
        self._is_used |= is_expected
        if is_expected and index not in self._expected:
            self._expected.add(index)
            if index in self._begun:
                self._heard(index)
        elif not is_expected:
            self._expected.discard(index)

    def receive(self) -> tuple[int, Message]:
        """Return what comes next from any worker, in turn, and the worker's index.

        Raises:
            DataWorkerError: A worker is dead or has failed for good, or has said nothing for too long; all are ended.
        """
        index, message = self._take()
        while message.kind == Kind.READY:
            self._begun.add(index)
            index, message = self._take()
        if message.kind == Kind.FATAL:
            error = worker_error(self.name_of(index), message.points[0])
            self.close()
            raise error
        return index, message

    def _take(self) -> tuple[int, Message]:
        """Return what comes next from any worker."""
        self._is_used = True
        while not self._ready:
            self._wait()
        index = self._ready.popleft()
        message = self._receivers[index].take()
        if self._receivers[index].has_message:
            self._ready.append(index)
        self._heard(index)
        return index, message

    def cancel(self, index: int, number: int) -> None:
        """Tell a worker to give up its pass; what it sent before still comes.

        Args:
            index: which worker.
            number: the number of the command that follows.
        """
        self._is_used = True
        self._receivers[index].cancel(number)

    def command(self, index: int, command: object) -> None:
        """Send a worker something that is no data point.

        Raises:
            DataWorkerError: It is dead.
        """
        try:
            self.senders[index].send(Kind.COMMAND, command)
        except PeerGoneError:
            self.bury(index)

    def wait_for_room(self, index: int) -> None:
        """Wait until a worker that waits for data points has read some, or is dead.

        Raises:
            DataWorkerError: It is dead, or hangs.
        """
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
        """End all workers, since one is dead.

        Raises:
            DataWorkerError: Always; it says why the worker ended, by its own last words if there are any.
        """
        if self.is_closed:
            raise DataWorkerError(f"the workers of {self._owner} have been ended")
        name = self.name_of(index)
        code = self._members.children[index].exit_code(_DEATH_SECS)
        failure = self._last_words(index)
        self.close()
        raise worker_error(name, failure) if failure else DataWorkerError(f"{name} {cause_of_death(code)}")

    def _last_words(self, index: int) -> Failure | None:
        """Return what a dead worker has said of its end, which comes after all that nobody has read yet."""
        receiver = self._receivers[index]
        while receiver.has_message or (receiver.fill(wait=False) and receiver.has_message):
            message = receiver.take()
            if message.kind == Kind.FATAL:
                return message.points[0]
        return None

    def _wait(self) -> None:
        """Wait until something came."""
        for receiver in self._receivers:
            receiver.return_ended()
        events = [] if self.is_closed else self._poll.poll(self._patience_ms())
        if self.is_closed:
            raise DataWorkerError(f"the workers of {self._owner} have been ended")
        for index in sorted({self._index_of[descriptor] for descriptor, _ in events}):
            receiver = self._receivers[index]
            is_open = receiver.fill(wait=False)
            sentinel = self._members.children[index].sentinel
            if receiver.has_message:
                self._ready.append(index)
            elif not is_open or any(descriptor == sentinel for descriptor, _ in events):
                self.bury(index)
        self._check_silence()

    def _heard(self, index: int) -> None:
        """Take note that a worker was heard of, or that its silence begins to count."""
        self._silent_since[index] = time.monotonic()
        self._patience[index] = self._warn_secs

    def _patience_ms(self) -> float | None:
        """Return how long to wait until the silence of a worker is worth a word."""
        if not self._expected:
            return None
        deadline = min(self._silent_since[index] + self._limit_of(index)[0] for index in self._expected)
        return max(0, math.ceil((deadline - time.monotonic()) * 1000))

    def _check_silence(self) -> None:
        """Raise if a worker has said nothing for too long; if there is no limit, say so in the log."""
        now = time.monotonic()
        for index in self._expected - set(self._ready):
            silence = now - self._silent_since[index]
            limit, is_last = self._limit_of(index)
            if silence < limit:
                continue
            name = self.name_of(index)
            if is_last:
                self.close()
                raise DataWorkerError(
                    f"{name} hangs: it has said nothing for {silence:.1f} s (timeout={self._timeout})"
                )
            self._patience[index] *= 2
            logger.warning(
                "%s has said nothing for %.0f s, and is waited for: is it slow, stopped, or does it hang? With "
                "timeout=... that becomes an error",
                name,
                silence,
            )

    def _limit_of(self, index: int) -> tuple[float, bool]:
        """Return how long a worker may say nothing until something is done, and whether that is to raise."""
        extra = 0 if index in self._begun else _START_SECS
        timeout = math.inf if self._timeout is None else self._timeout
        return min(timeout, self._patience[index]) + extra, timeout <= self._patience[index]


class _Members:
    """The processes of a group and the channels that lead to them.

    They are kept apart from the group itself, so that they can be ended when it is garbage collected.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []

    def start(self, owner: str, serve: Serve, arguments: tuple[Any, ...], options: GroupOptions) -> None:
        """Start the processes.

        Args:
            owner: whose workers they are, for their names and messages.
            serve: the function that they run.
            arguments: its arguments after the link.
            options: how to run them.

        Raises:
            ConfigError: The arguments cannot be pickled, or a fork would be dangerous.
        """
        work = serve, arguments
        with contextlib.ExitStack() as stack:
            if options.start_method == "fork":
                check_fork(owner)
                payload = None
            else:
                payload = stack.enter_context(write_payload(owner, work))
            for index in range(options.num_workers):
                name, seed = f"{owner}-{index}", (options.seed + index) % 2**32
                with self._channels(options, seed) as task:
                    child = _spawn(name, task, payload) if payload is not None else self._fork(name, task, work)
                    self.children.append(child)

    @contextlib.contextmanager
    def _channels(self, options: GroupOptions, seed: int) -> Iterator[Task]:
        """Make the channels of one worker; its ends are closed here when it has them."""
        results_here, results_there = socket.socketpair()
        jobs_here, jobs_there = socket.socketpair()
        self.receivers.append(Receiver(results_here))
        self.senders.append(Sender(jobs_here, options.jobs, has_flusher=False))
        with results_there, jobs_there:
            yield Task(options.results, seed, results_there.fileno(), jobs_there.fileno())

    def _fork(self, name: str, task: Task, work: tuple[Serve, tuple[Any, ...]]) -> Child:
        """Start a fork, which must not hold the ends that belong to this process."""
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
    """Start a new interpreter."""
    return spawn_child(
        run_spawned_worker,
        {"task": asdict(task), "payload": asdict(payload)},
        name=name,
        descriptors=(task.results, task.jobs, payload.descriptor),
        environment=with_streaming_stores(os.environ),
    )


def worker_error(name: str, failure: Failure) -> DataWorkerError:
    """Return the error to be raised for an exception of a worker.

    Args:
        name: what to call the worker.
        failure: its exception.
    """
    return failure.error(DataWorkerError, f"{name} raised")
