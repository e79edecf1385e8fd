"""What a worker does that maps data points: it answers each with what a function makes of it, or with a batch."""

from collections.abc import Callable
from typing import Any

from tpack.dataflow.aggregate import aggregate
from tpack.dataflow.parallel.failure import failure_of
from tpack.dataflow.parallel.transport.building import BuiltPoint
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.bootstrap import Link
from tpack.dataflow.placed_points import begin_batch


def serve_map(link: Link, func: Callable[[Any], Any]) -> None:
    """Map data points for ever.

    Args:
        link: what the worker has of its owner.
        func: gets a point and returns one, or None.
    """
    _serve(link, lambda point: link.results.put(func(point)))


def serve_batches(link: Link, func: Callable[[Any], Any], batch_size: int) -> None:
    """Map lists of data points for ever, and answer each with a batch; or with None, if too many were dropped for one.

    Args:
        link: what the worker has of its owner.
        func: gets a point and returns one, or None.
        batch_size: the number of points in each list and in each batch.
    """
    _serve(link, _Batcher(link, func, batch_size).answer)


def _serve(link: Link, answer: Callable[[Any], None]) -> None:
    """Answer everything that comes; an exception is an answer, too."""
    while True:
        if not link.jobs.has_message:
            link.results.flush()
        # Nothing here keeps a point: the memory it lies in is to go back.
        for point in _drain(link.jobs.receive().points):
            try:
                answer(point)
            except PeerGoneError:
                raise
            except Exception as error:
                link.results.send(Kind.ERROR, failure_of(error))
            del point


def _drain(points: list[Any]) -> Any:
    """Yield the elements of a list, which has them no more."""
    points.reverse()
    while points:
        yield points.pop()


class _Batcher:
    """Gathers mapped points until there are enough for a batch; large arrays in the memory that it is sent in."""

    def __init__(self, link: Link, func: Callable[[Any], Any], batch_size: int) -> None:
        self._results = link.results
        self._func = func
        self._batch_size = batch_size
        self._built = BuiltPoint(link.results)
        self._gathered: list[Any] = []
        # Those that were too many for the last batch.
        self._mapped: list[Any] = []

    def answer(self, points: list[Any]) -> None:
        """Send a batch, or None. An exception costs the batch that it happens in, and nothing of it comes later."""
        try:
            self._gather(points)
            if len(self._gathered) < self._batch_size:
                self._results.put(None)
                return
            gathered, self._gathered = self._gathered, []
            self._built.send(aggregate(gathered, empty=self._built.empty))
        except BaseException:
            self._forget()
            raise

    def _gather(self, points: list[Any]) -> None:
        """Map points; add to the batch what there is room for, and keep the others."""
        mapped, self._mapped = self._mapped, []
        for point in mapped:
            self._add(point)
        del mapped
        for point in points:
            one = self._func(point)
            if one is not None:
                self._add(one)

    def _add(self, point: Any) -> None:
        if len(self._gathered) == self._batch_size:
            # An answer is sent for each list, when all of it is mapped.
            self._mapped.append(point)
            return
        if not self._gathered:
            self._gathered = begin_batch(point, self._batch_size, self._built.empty)
        self._gathered.append(point)

    def _forget(self) -> None:
        """Begin anew."""
        self._gathered, self._mapped = [], []
        self._built.give_up()
