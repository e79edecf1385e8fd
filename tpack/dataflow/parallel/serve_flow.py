"""What a worker does that runs a whole flow: it iterates it again and again, and sends the data points."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tpack.dataflow.aggregate import aggregate
from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.parallel.failure import failure_of
from tpack.dataflow.parallel.position import Position, StateTaker, go_to
from tpack.dataflow.parallel.transport.building import BuiltPoint
from tpack.dataflow.parallel.transport.wire import CancelledError, Kind, PeerGoneError
from tpack.dataflow.parallel.workers.bootstrap import Link
from tpack.dataflow.placed_points import begin_batch


@dataclass(frozen=True)
class Command:
    """What the owner wants: a pass from its beginning.

    Attributes:
        number: the number of the cancellation that came before.
        position: where it begins; None if the flow shall just be begun anew.
    """

    number: int
    position: Position | None


@dataclass(frozen=True)
class State:
    """What the flow says about its position: its state, or why it has none."""

    state: dict[str, Any] | None
    reason: str | None


def serve_flow(link: Link, ds: DataFlow, tells_state: bool, goes_on: bool) -> None:
    """Iterate a flow for ever, and send its data points.

    After an exception, or when the owner does not want the rest of a pass, the worker waits until it is told to begin
    again.

    Args:
        link: what the worker has of its owner.
        ds: the flow.
        tells_state: whether the positions of the flow are sent too, in between.
        goes_on: whether a pass is begun as soon as the one before it has ended; or when the owner wants it.
    """
    ds.reset_state()
    server = _Server(link, ds, tells_state)
    command: Command | None = None
    while True:
        try:
            server.run_pass(command)
            command = None if goes_on else link.jobs.receive().points[0]
        except CancelledError:
            command = link.jobs.receive().points[0]
        except PeerGoneError:
            raise
        except Exception as error:
            link.results.send(Kind.ERROR, failure_of(error))
            command = link.jobs.receive().points[0]


class _Server:
    """One flow that is being served."""

    def __init__(self, link: Link, ds: DataFlow, tells_state: bool) -> None:
        self._results = link.results
        self._built = BuiltPoint(link.results)
        self._ds = ds
        self._taker = StateTaker(ds) if tells_state else None
        self._is_first = True

    def run_pass(self, command: Command | None) -> None:
        """Send the data points of a pass."""
        position = None if command is None else command.position
        if command is not None:
            self._results.resume(command.number)
            self._results.send(Kind.BEGUN, number=command.number)
        # The points of a batch are made a batch in the memory that they are sent in; a pass that begins in the middle
        # is rare and has no need of that.
        in_place = type(self._ds) is BatchData and not self._ds.use_list and position is None
        points = self._begin(position, in_place)
        if command is not None:
            self._results.send(Kind.BEGUN, number=command.number)
        # At the end of a pass the state is told already, and that of a position is known.
        if self._is_first or (command is not None and (position is None or position.is_over)):
            self._tell_state()
        self._is_first = False
        try:
            self._put_all(points, in_place)
        finally:
            # A batch that was begun.
            self._built.give_up()
        self._tell_state()
        self._results.send(Kind.END)

    def _begin(self, position: Position | None, in_place: bool) -> Iterator[Any]:
        if position is not None:
            return go_to(self._ds, self._ds, position)
        if in_place and isinstance(self._ds, BatchData):
            return self._ds.groups(self._begin_batch)
        return iter(self._ds)

    def _put_all(self, points: Iterator[Any], in_place: bool) -> None:
        for point in points:
            if in_place:
                self._put_batch(*point)
            else:
                self._results.put(point)
            if self._taker is not None and self._taker.is_due():
                self._tell_state()

    def _begin_batch(self, first: Any, size: int) -> list[Any]:
        return begin_batch(first, size, self._built.empty)

    def _put_batch(self, points: list[Any], first_index: int) -> None:
        self._built.send(aggregate(points, first_index=first_index, empty=self._built.empty))

    def _tell_state(self) -> None:
        if self._taker is not None:
            self._results.send(Kind.STATE, State(self._taker.take(), self._taker.reason))
