"""What a worker does that maps data points: it answers each with what a function makes of it, or with a batch."""

from collections.abc import Callable
from typing import Any

from tpack.dataflow.aggregate import aggregate
from tpack.dataflow.parallel.bootstrap import Link
from tpack.dataflow.parallel.failure import failure_of
from tpack.dataflow.parallel.wire import Kind, PeerGoneError


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
    """Gathers mapped points until there are enough for a batch."""

    def __init__(self, link: Link, func: Callable[[Any], Any], batch_size: int) -> None:
        self._link = link
        self._func = func
        self._batch_size = batch_size
        # More than there are in a batch only while a list is mapped: those that were too few for one before.
        self._mapped: list[Any] = []

    def answer(self, points: list[Any]) -> None:
        """Send a batch, or None."""
        for point in points:
            mapped = self._func(point)
            if mapped is not None:
                self._mapped.append(mapped)
        if len(self._mapped) < self._batch_size:
            self._link.results.put(None)
            return
        batch, self._mapped = self._mapped[: self._batch_size], self._mapped[self._batch_size :]
        self._link.results.put_built(lambda empty: aggregate(batch, empty=empty))
