"""The workers of one flow, as the process that owns them sees them: what comes from them, and what becomes of them.

Each worker has channels of its own, so that nothing is shared among them that a dying one could leave locked. Waiting
is waiting for all of them, and for their deaths.
"""

import math
import select
import time
import weakref
from collections import deque
from typing import Any, NoReturn

from tpack.dataflow.parallel.failure import cause_of_death
from tpack.dataflow.parallel.members import GroupOptions, Members
from tpack.dataflow.parallel.transport.receiver import Message
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.bootstrap import Serve
from tpack.errors import DataWorkerError

_DEATH_SECS = 5.0
# What a worker may take longer before it has begun: to start Python, and to import what the flow refers to.
_START_SECS = 60.0


class WorkerGroup:
    """Workers that run, until ``close`` is called, the group is garbage collected, or this process ends."""

    def __init__(self, owner: str, serve: Serve, arguments: tuple[Any, ...], options: GroupOptions) -> None:
        """Start the workers.

        Args:
            owner: whose workers they are, for messages.
            serve: the function that they run.
            arguments: its arguments after the link.
            options: how to run them.

        Raises:
            ConfigError: The arguments cannot be pickled, or a fork would be dangerous.
        """
        self._owner = owner
        self._timeout = options.timeout
        self._members = Members()
        self._finalizer = weakref.finalize(self, self._members.end)
        try:
            self._members.start(owner, serve, arguments, options)
        except BaseException:
            self.close()
            raise
        self.senders = self._members.senders
        self._receivers = self._members.receivers
        # Workers that something is expected of; and since when they said nothing.
        self._expected = set(range(options.num_workers))
        self._silent_since = [time.monotonic()] * options.num_workers
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
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [child.pid for child in self._members.children]

    def name_of(self, index: int) -> str:
        """Return what to call a worker."""
        return f"worker {index} (process {self.pids[index]}) of {self._owner}"

    def expect(self, index: int, *, is_expected: bool) -> None:
        """Say whether something is expected of a worker, so that its silence is wrong."""
        if is_expected and index not in self._expected:
            self._expected.add(index)
            if index in self._begun:
                self._silent_since[index] = time.monotonic()
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
            error = message.points[0].error(self.name_of(index))
            self.close()
            raise error
        return index, message

    def _take(self) -> tuple[int, Message]:
        """Return what comes next from any worker."""
        while not self._ready:
            self._wait()
        index = self._ready.popleft()
        message = self._receivers[index].take()
        if self._receivers[index].has_message:
            self._ready.append(index)
        if self._timeout is not None:
            self._silent_since[index] = time.monotonic()
        return index, message

    def cancel(self, index: int, number: int) -> None:
        """Tell a worker to give up its pass; what it sent before still comes.

        Args:
            index: which worker.
            number: the number of the command that follows.
        """
        self._receivers[index].cancel(number)

    def command(self, index: int, command: Any) -> None:
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
            DataWorkerError: It is dead.
        """
        poll = select.poll()
        sentinel = self._members.children[index].sentinel
        for descriptor in (self.senders[index].fileno(), sentinel):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        if any(descriptor == sentinel for descriptor, _ in poll.poll()):
            self.bury(index)

    def bury(self, index: int) -> NoReturn:
        """End all workers, since one is dead.

        Raises:
            DataWorkerError: Always; it says how the worker ended.
        """
        if self.is_closed:
            raise DataWorkerError(f"the workers of {self._owner} have been ended")
        name = self.name_of(index)
        code = self._members.children[index].exit_code(_DEATH_SECS)
        self.close()
        raise DataWorkerError(f"{name} {cause_of_death(code)}")

    def _wait(self) -> None:
        """Wait until something came."""
        for receiver in self._receivers:
            receiver.return_unused()
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
        if self._timeout is not None:
            self._check_silence()

    def _patience_ms(self) -> float | None:
        """Return how long to wait until the first worker has said nothing for too long."""
        if self._timeout is None or not self._expected:
            return None
        deadline = min(self._silent_since[index] + self._limit_of(index) for index in self._expected)
        return max(0, math.ceil((deadline - time.monotonic()) * 1000))

    def _check_silence(self) -> None:
        """Raise if a worker has said nothing for too long."""
        now = time.monotonic()
        for index in self._expected - set(self._ready):
            silence = now - self._silent_since[index]
            if silence >= self._limit_of(index):
                name = self.name_of(index)
                self.close()
                raise DataWorkerError(
                    f"{name} hangs: it has said nothing for {silence:.1f} s (timeout={self._timeout})"
                )

    def _limit_of(self, index: int) -> float:
        """Return how long a worker may say nothing."""
        timeout = math.inf if self._timeout is None else self._timeout
        return timeout if index in self._begun else timeout + _START_SECS
