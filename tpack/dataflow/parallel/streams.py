"""The data points of workers that each run a whole flow, as one stream that passes are cut from.

One worker yields the passes of its flow, in its order, and its position can be told. Several run independently, and the
order is that in which their points come.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from tpack.dataflow.parallel.position import Position
from tpack.dataflow.parallel.serve_flow import Command
from tpack.dataflow.parallel.transport.receiver import Message
from tpack.dataflow.parallel.transport.wire import MAX_NUMBER, Kind
from tpack.dataflow.parallel.workers.group import WorkerGroup
from tpack.dataflow.state import StatelessError
from tpack.errors import DataWorkerError


class OneStream:
    """The passes of one worker, which tells its state and goes on after each pass."""

    def __init__(self, group: WorkerGroup) -> None:
        """Begin where the worker begins."""
        self._group = group
        self._number = 0
        # The last state that the worker told, and the position of what was yielded since.
        self._state: dict[str, Any] | None = None
        self._skipped = 0
        self._is_over = False
        self._reason: str | None = None
        # Whether a pass was begun and has not ended; and whether the worker is not where the next pass begins.
        self._is_inside = False
        self._is_astray = False

    def iterate(self) -> Iterator[Any]:
        """Yield a pass."""
        if self._is_inside:
            self.end_pass()
        if self._is_astray:
            self._restart(self._known_position())
        self._is_inside = self._is_astray = True
        while True:
            message = self._receive()
            if message.kind == Kind.END:
                self._is_inside = self._is_astray = False
                return
            if message.kind in (Kind.POINT, Kind.PACK, Kind.DROPPED):
                for point in message.points:
                    self._skipped += 1
                    yield point

    def position(self) -> Position:
        """Return the position after the last point that was yielded.

        Raises:
            StatelessError: The flow has none.
        """
        while self._state is None and self._reason is None:
            self._receive()
        position = self._known_position()
        if position is None:
            raise StatelessError(f"the flow in the worker cannot tell its position: {self._reason}")
        return position

    def _known_position(self) -> Position | None:
        return None if self._state is None else Position(self._state, self._skipped, self._is_over)

    def go_to(self, position: Position) -> None:
        """Let the next pass begin at a position.

        Raises:
            DataWorkerError: The flow cannot go there; the next pass begins where it would have begun otherwise.
        """
        self._is_astray = True
        self._restart(position)
        self._state, self._skipped, self._is_over = position.state, position.skipped, position.is_over
        self._is_inside = self._is_astray = False

    def end_pass(self) -> None:
        """Give up the rest of the pass."""
        # A pass of which no point was taken has not begun, for the flow.
        if self._state is not None and self._skipped:
            self._is_over = self._is_astray = True
        self._is_inside = False

    def _restart(self, position: Position | None) -> None:
        """Let the worker begin a pass; drop what it sent before."""
        self._number = send_command(self._group, 0, self._number, position)
        message = self._group.receive()[1]
        while message.kind != Kind.BEGUN or message.number != self._number:
            message = self._group.receive()[1]
        self._receive()

    def _receive(self) -> Message:
        """Return what comes next; take note of states and raise exceptions."""
        _, message = self._group.receive()
        if message.kind == Kind.ERROR:
            self._is_astray = True
            raise failure_in(self._group, 0, message)
        if message.kind == Kind.STATE:
            state = message.points[0]
            self._state, self._skipped, self._is_over = state.state, 0, False
            self._reason = state.reason
        return message


class ManyStreams:
    """The points of several workers, in passes of a known length; or of one pass of each worker."""

    def __init__(self, group: WorkerGroup, count: int, length: int | None) -> None:
        """Begin where the workers begin.

        Args:
            group: the workers.
            count: how many there are.
            length: of a pass. If it is not known, the workers wait after each pass of theirs.
        """
        self._group = group
        self._all = range(count)
        self._length = length
        self._number = 0
        self._points: deque[Any] = deque()
        self._is_first = True
        # Workers that wait for a command because of an exception; and what those answer that got one.
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

    def _restart(self, indices: Any) -> None:
        """Let workers begin a pass; what they sent before is dropped when it comes."""
        for index in indices:
            self._number = send_command(self._group, index, self._number, None)
            self._awaited[index] = self._number
            self._running.add(index)
        self._failed.clear()

    def _fill(self) -> bool:
        """Wait for points; return whether there are some before all workers have ended their passes."""
        while not self._points and self._running:
            index, message = self._group.receive()
            if index in self._awaited:
                if message.kind == Kind.BEGUN and message.number == self._awaited[index]:
                    del self._awaited[index]
            elif message.kind == Kind.ERROR:
                self._failed.add(index)
                raise failure_in(self._group, index, message)
            elif message.kind == Kind.END and self._length is None:
                self._running.discard(index)
                self._group.expect(index, is_expected=False)
            else:
                self._points += message.points
        return bool(self._points)


def send_command(group: WorkerGroup, index: int, last_number: int, position: Position | None) -> int:
    """Let a worker give up what it is at and begin a pass.

    Args:
        group: the worker's group.
        index: which worker.
        last_number: the number of the last command that any of them got.
        position: where the pass begins; None if the flow shall just be begun anew.

    Returns:
        The number of the command, which the worker's answers have.
    """
    number = last_number % MAX_NUMBER + 1
    group.cancel(index, number)
    group.expect(index, is_expected=True)
    group.command(index, Command(number, position))
    return number


def failure_in(group: WorkerGroup, index: int, message: Message) -> DataWorkerError:
    """Return the error that a worker has sent; nothing is expected of it until it is told to begin again."""
    group.expect(index, is_expected=False)
    return message.points[0].error(group.name_of(index))
