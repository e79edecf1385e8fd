"""The ways to read a foreign iterable from a place on: by index, by the position it tells, or by dropping points."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from tpack.dataflow.foreign_state import freeze_state, thaw_state
from tpack.dataflow.passes import skip


class Reader:
    """Points of one pass, read by an object that does not tell where it is."""

    def __init__(self, points: Iterator[Any]) -> None:
        """Read from an iterator."""
        self.points = points

    def own(self) -> bytes | None:
        """Return the object's own position, after the last point that was taken; None if it tells none."""
        return None

    def own_at_end(self) -> bytes | None:
        """Return the object's own position after the pass, where it knows more than that a new one begins."""
        return None


class IteratorReader(Reader):
    """Points of an iterator with ``get_state`` and ``set_state``, such as one of grain."""

    def __init__(self, points: Any, own: bytes | None) -> None:
        """Send the iterator to a position, if one is given."""
        super().__init__(points)
        self._iterator = points
        if own is not None:
            points.set_state(thaw_state(points, own))

    def own(self) -> bytes | None:
        """Return the iterator's position."""
        return freeze_state(self._iterator, self._iterator.get_state())


class LoaderReader(Reader):
    """Points of an iterable with ``state_dict`` and ``load_state_dict``, such as a ``StatefulDataLoader``."""

    def __init__(self, iterable: Any, own: bytes | None) -> None:
        """Send the iterable to a position, if one is given.

        Of one with ``set_epoch``, as those of Hugging Face, it is a copy: they would begin all later passes there, too.
        """
        self._loader = iterable
        if own is not None:
            self._loader = copy.deepcopy(iterable) if hasattr(iterable, "set_epoch") else iterable
            self._loader.load_state_dict(thaw_state(iterable, own))
        super().__init__(iter(self._loader))

    def own(self) -> bytes | None:
        """Return the iterable's position."""
        return freeze_state(self._loader, self._loader.state_dict())

    def own_at_end(self) -> bytes | None:
        """Return the iterable's position: it may hold what the order of the next pass is drawn from."""
        return self.own()


def open_reader(owner: Any, iterable: Any, start: int, own: bytes | None) -> Reader:
    """Begin a pass over a foreign iterable.

    Args:
        owner: the flow that reads, for messages.
        iterable: the object.
        start: how many points were taken before.
        own: the object's own position there, if it told one.

    Raises:
        InputError: Points are to be dropped and there are too few, or ``own`` is none.
    """
    if hasattr(iterable, "state_dict") and hasattr(iterable, "load_state_dict"):
        return LoaderReader(iterable, own)
    if is_indexed(iterable):
        return Reader(iterable[index] for index in range(start, len(iterable)))
    points = iter(iterable)
    if hasattr(points, "get_state") and hasattr(points, "set_state"):
        return IteratorReader(points, own)
    skip(owner, points, start)
    return Reader(points)


def is_indexed(obj: Any) -> bool:
    """Tell whether data points can be read by their numbers."""
    if not (hasattr(obj, "__len__") and hasattr(obj, "__getitem__")):
        return False
    # The last is what PyTorch's loaders look for in a data set, and Hugging Face's has.
    return isinstance(obj, Sequence) or not hasattr(obj, "__iter__") or hasattr(obj, "__getitems__")
