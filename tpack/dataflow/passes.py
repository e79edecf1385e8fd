"""Where the newest pass over a flow is, kept so that it can be told, and a later pass can begin there.

A flow may be iterated by several loops at a time, may be left in the middle and begun again. Its position is that of
the pass that was begun last. Each pass therefore holds a value of its own, and the flow knows which pass is the newest.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from tpack.errors import InputError

Value = TypeVar("Value")


class Pass(Generic[Value]):
    """One pass; ``value`` says where it is, in the flow's own terms: a number or a tuple, never changed in place."""

    def __init__(self, value: Value) -> None:
        """Begin at a value."""
        self.value = value


class Passes(Generic[Value]):
    """The passes over one flow."""

    def __init__(self, first: Value) -> None:
        """Have no pass yet.

        Args:
            first: where a pass begins that was not sent to another place.
        """
        self._first = first
        self._start = first
        self._newest: Pass[Value] | None = None

    @property
    def value(self) -> Value:
        """Where the newest pass is; or, if there is none or it has ended, where the next begins."""
        return self._start if self._newest is None else self._newest.value

    @property
    def next_start(self) -> Value:
        """Where the next pass begins."""
        return self._start

    @property
    def has_newest(self) -> bool:
        """Whether a pass was begun and has not ended, be it one that nobody goes on with."""
        return self._newest is not None

    @property
    def is_sent(self) -> bool:
        """Whether the next pass is to begin in the middle: ``go_to`` was called and no pass begun since."""
        return self._newest is None and self._start != self._first

    def begin(self) -> Pass[Value]:
        """Begin a pass, which is the newest from now on."""
        self._newest = Pass(self._start)
        self._start = self._first
        return self._newest

    def end(self, ended: Pass[Value]) -> bool:
        """Say that a pass has ended; return whether it was the newest."""
        is_newest = self._newest is ended
        if is_newest:
            self._newest = None
        return is_newest

    def go_to(self, value: Value) -> None:
        """Let the next pass begin somewhere, and forget the newest."""
        self._newest = None
        self._start = value

    def reset(self) -> None:
        """Let the next pass begin where passes begin, and forget the newest."""
        self.go_to(self._first)


def skip(owner: Any, points: Iterator[Any], count: int) -> None:
    """Take data points that were taken before the interruption, and drop them.

    Args:
        owner: the flow that yields them, for the message.
        points: what to take them from.
        count: how many.

    Raises:
        InputError: There are less.
    """
    found = sum(1 for _ in islice(points, count))
    if found < count:
        raise InputError(
            f"{type(owner).__name__} was to go on after {count} data points and has only {found}: the data has changed"
        )


def leave(points: Iterator[Any]) -> None:
    """Close an iterator that is not gone on with, if it is of a kind that can be closed, as generators are."""
    close = getattr(points, "close", None)
    if close is not None:
        close()
