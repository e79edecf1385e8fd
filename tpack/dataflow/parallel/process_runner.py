"""Flows that run in worker processes, ahead of their consumer.

In the consumer's process a stream makes passes of the messages: `_OneStream` has a position, `_ManyStreams` takes
points as they come. In each worker `serve_flow` iterates its copy again and again; see ``docs/dataflow_protocol.md``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, ProxyDataFlow, length_or_none
from tpack.dataflow.checkpoint import PassTracker, Position, StateSampler, go_to
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.receiver import Message
from tpack.dataflow.parallel.sender import BuiltPoint
from tpack.dataflow.parallel.slots import MAX_NUMBER, CancelledError, PeerGoneError, Record
from tpack.dataflow.parallel.worker import ParentLink
from tpack.dataflow.parallel.worker_group import OwnedWorkers, WorkerPool, worker_error
from tpack.errors import DataWorkerError
from tpack.utils.child_process import failure_of
from tpack.utils.validation import check_arguments, check_count

_COMMANDS = 4


class _ProcessRunner(ProxyDataFlow):
    """A flow in one or more worker processes."""

    keeps_each_point = True
    reads_ahead = True

    def __init__(self, ds: DataFlow, num_proc: int, prefetch: int, timeout: float | None) -> None:
        super().__init__(ds)
        self.num_proc = check_count(self, "num_proc", num_proc)
        self._prefetch = prefetch
        self._workers = OwnedWorkers(self, timeout)
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._stream: _OneStream | _ManyStreams | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def reset_state(self) -> None:
        """Start the workers, each of which resets its copy of the flow and begins to iterate it."""
        self._stream = None
        length = length_or_none(self.ds)
        is_one = self.num_proc == 1
        goes_on = is_one or length is not None
        arguments = (self.ds, is_one, goes_on)
        group = self._workers.start(serve_flow, arguments, count=self.num_proc, results=self._prefetch, jobs=_COMMANDS)
        self._stream = _OneStream(group) if is_one else _ManyStreams(group, self.num_proc, length)

    def __iter__(self) -> Iterator[Any]:
        with self._guard:
            yield from self._running().iterate()

    def close(self) -> None:
        """End the workers. They end with the flow and with this process, too."""
        self._workers.end()

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the worker after the last yielded point; raise StatelessError with several."""
        return self._one_stream().position().state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the flow in the worker to a position; a StatelessError with several workers."""
        self._one_stream().go_to(Position.from_state(self, state))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass of a single worker; passes of several have no rest."""
        if isinstance(self._stream, _OneStream):
            self._stream.end_pass()

    def _running(self) -> "_OneStream | _ManyStreams":
        self._workers.group()
        # There is a stream whenever there are workers.
        return self._stream  # type: ignore[return-value]

    def _one_stream(self) -> "_OneStream":
        stream = self._running()
        if not isinstance(stream, _OneStream):
            raise StatelessError(
                f"{type(self).__name__} has no position with num_proc={self.num_proc}, since its order depends on the "
                "speed of processes: use num_proc=1"
            )
        return stream


@check_arguments
class MultiProcessRunner(_ProcessRunner):
    """Run a flow in one or more processes, and yield its points as they come.

    With one process, order and passes are those of the flow, and there is a position if the flow has one. With more,
    each process runs a copy of the whole flow with other random numbers; passes of the flow's length are cut from the
    mixture, each from where the last one stopped. The distribution is the same if the points of the flow are
    independent; of a list in its own order each point comes from every process. If the flow does not know its length, a
    pass is one pass of each process together.

    ``reset_state`` starts the processes as new interpreters, or as forks (see ``start_workers_by``). An exception in
    one is raised as a `DataWorkerError`; the next pass begins again. A process that dies ends the iteration with its
    exit code. Arrays of 64 KiB and more are views of memory shared with the worker, which uses it again when they are
    gone.

    Args:
        ds: the flow; it is pickled, so make other objects in its ``reset_state``.
        num_prefetch: the number of waiting data points of all processes; fewer if they are large, and a few more if
            they are small.
        num_proc: the number of processes.
        timeout: seconds of waiting for a data point after which a process counts as hanging; a minute more while it
            starts. None waits for ever, and the log names a process that was silent for a minute.

    Raises:
        ConfigError: A number is less than 1, or the timeout is not a number.
    """

    def __init__(self, ds: DataFlow, num_prefetch: int, num_proc: int, *, timeout: float | None = None) -> None:
        num_prefetch = check_count(self, "num_prefetch", num_prefetch)
        super().__init__(ds, num_proc, -(-num_prefetch // max(1, num_proc)), timeout)


@check_arguments
class MultiProcessRunnerZMQ(_ProcessRunner):
    """The same as `MultiProcessRunner` with another limit of waiting points; ZeroMQ is not needed.

    The name is tensorpack's, where it was the faster of the two.

    Args:
        hwm: the number of waiting data points of each process; fewer if they are large, and a few more if they are
            small.
    """

    def __init__(self, ds: DataFlow, num_proc: int = 1, hwm: int = 50, *, timeout: float | None = None) -> None:
        super().__init__(ds, num_proc, check_count(self, "hwm", hwm), timeout)


class _OneStream:
    """The passes of one worker, which sends its state and continues after each pass."""

    def __init__(self, group: WorkerPool) -> None:
        self._group = group
        self._number = 0
        self._passes = PassTracker("the flow in the worker")
        # The last state from the worker, if no message has followed.
        self._newest: _State | None = None

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        passes = self._passes
        passes.end_broken_pass()
        if passes.is_astray:
            self._restart(passes.position)
        passes.begin()
        while True:
            message = self._receive()
            if message.kind == Record.END:
                passes.end()
                return
            if message.kind in (Record.POINT, Record.PACK, Record.DROPPED):
                for point in message.points:
                    passes.num_taken += 1
                    yield point

    def position(self) -> Position:
        """Return the position after the last point that was yielded; raise a StatelessError if the flow has none."""
        while self._passes.position is None and self._passes.reason is None:
            self._receive()
        return self._passes.known_position()

    def go_to(self, position: Position) -> None:
        """Let the next pass begin at a position; raise DataWorkerError, with no change, if the flow cannot go there."""
        self._passes.is_astray = True
        self._restart(position)
        self._passes.go_to(position, is_there=True)

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        self._passes.end_pass()

    def _restart(self, position: Position | None) -> None:
        """Let the worker begin a pass; drop its earlier messages."""
        self._newest = None
        self._number = _send_command(self._group, 0, self._number, position)
        message = self._group.receive()[1]
        while message.kind != Record.BEGUN or message.number != self._number:
            message = self._group.receive()[1]
        self._receive()

    def _receive(self) -> Message:
        """Return the next message; record states, which count from the next one on, and raise exceptions.

        A pass given up right after a state is given up at its last point: else the rest would be a pass of its own.
        """
        _, message = self._group.receive()
        if message.kind == Record.ERROR:
            self._passes.is_astray = True
            raise _failure_in(self._group, 0, message)
        if message.kind == Record.STATE:
            self._newest = message.points[0]
        if self._newest is not None and (message.kind != Record.STATE or self._passes.position is None):
            self._passes.stand_at(self._newest.position, self._newest.reason)
            self._newest = None
        return message


class _ManyStreams:
    """The points of several workers, in passes of a known length; or of one pass of each worker together."""

    def __init__(self, group: WorkerPool, count: int, length: int | None) -> None:
        self._group = group
        self._all = range(count)
        self._length = length
        self._number = 0
        self._points: deque[Any] = deque()
        self._is_first = True
        # Workers that wait for a command after an exception; and the expected answers to commands.
        self._failed: set[int] = set()
        self._awaited: dict[int, int] = {}
        self._running: set[int] = set(self._all)

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        if self._length is None and not self._is_first:
            self._points.clear()
            self._restart(self._all)
        else:
            self._restart(sorted(self._failed))
        self._is_first = False
        taken = 0
        while taken != self._length:
            if not self._points and not self._fill():
                return
            taken += 1
            yield self._points.popleft()

    def _restart(self, indices: Iterable[int]) -> None:
        """Let workers begin a pass; their earlier messages are dropped when they come."""
        for index in indices:
            self._number = _send_command(self._group, index, self._number, None)
            self._awaited[index] = self._number
            self._running.add(index)
        self._failed.clear()

    def _fill(self) -> bool:
        """Wait for points; return whether there are some before all workers have ended their passes."""
        while not self._points and self._running:
            index, message = self._group.receive()
            if index in self._awaited:
                if message.kind == Record.BEGUN and message.number == self._awaited[index]:
                    del self._awaited[index]
            elif message.kind == Record.ERROR:
                self._failed.add(index)
                raise _failure_in(self._group, index, message)
            elif message.kind == Record.END and self._length is None:
                self._running.discard(index)
                self._group.expect(index, is_expected=False)
            else:
                self._points += message.points
        return bool(self._points)


def _send_command(group: WorkerPool, index: int, last_number: int, position: Position | None) -> int:
    """Let a worker give up its pass and begin another, by default of the flow; return the command's number."""
    number = last_number % MAX_NUMBER + 1
    group.cancel(index, number)
    group.expect(index, is_expected=True)
    group.command(index, _Command(number, position))
    return number


def _failure_in(group: WorkerPool, index: int, message: Message) -> DataWorkerError:
    """Return the error that a worker has sent; it is silent until the next command."""
    group.expect(index, is_expected=False)
    return worker_error(group.name_of(index), message.points[0])


@dataclass(frozen=True)
class _Command:
    """A command to begin a pass, by default of the flow, with the number of the cancellation before it."""

    number: int
    position: Position | None


@dataclass(frozen=True)
class _State:
    """The position of the flow, or the reason why it has none."""

    position: Position | None
    reason: str | None


def serve_flow(link: ParentLink, ds: DataFlow, tells_state: bool, goes_on: bool) -> None:
    """Iterate a flow for ever, and send its data points.

    After an exception, or a pass that was cancelled, the worker waits for a command; without ``goes_on`` after each
    pass. With ``tells_state`` it sends positions too.
    """
    ds.reset_state()
    server = _Server(link, ds, tells_state)
    command: _Command | None = None
    while True:
        try:
            server.run_pass(command)
            command = None if goes_on else link.jobs.receive().points[0]
        except CancelledError:
            command = link.jobs.receive().points[0]
        except PeerGoneError:
            raise
        except Exception as error:
            link.results.send(Record.ERROR, failure_of(error))
            command = link.jobs.receive().points[0]


class _Server:
    """One flow that is being served."""

    def __init__(self, link: ParentLink, ds: DataFlow, tells_state: bool) -> None:
        self._results = link.results
        self._built = BuiltPoint(link.results)
        self._ds = ds
        self._sampler = StateSampler(ds) if tells_state else None
        self._is_first = True

    def run_pass(self, command: _Command | None) -> None:
        """Send the data points of a pass."""
        position = None if command is None else command.position
        if command is not None:
            self._results.resume(command.number)
            self._results.send(Record.BEGUN, number=command.number)
        # Batches are made in the memory from which they are sent; a pass that begins in the middle is rare.
        batches = self._ds.made_in(self._built.empty) if position is None and hasattr(self._ds, "made_in") else None
        if batches is None:
            points = iter(self._ds) if position is None else go_to(self._ds, position)
        if command is not None:
            self._results.send(Record.BEGUN, number=command.number)
        # The state at the end of a pass was sent already, and a position is known.
        if self._is_first or (command is not None and (position is None or position.is_over)):
            self._send_state()
        self._is_first = False
        try:
            self._send_all(points, self._results.put) if batches is None else self._send_all(batches, self._built.send)
        finally:
            # A batch that was begun.
            self._built.give_up()
        self._send_state()
        self._results.send(Record.END)

    def _send_all(self, points: Iterator[Any], send: Callable[[Any], None]) -> None:
        for point in points:
            send(point)
            # Its memory is used again for the next.
            del point
            if self._sampler is not None and self._sampler.is_due():
                self._send_state()

    def _send_state(self) -> None:
        if self._sampler is not None:
            self._results.send(Record.STATE, _State(self._sampler.take(), self._sampler.reason))
