"""Callbacks that every training inside of a block gets, such as those of a command that runs somebody's script."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpack.callbacks.base import Callback

_makers: list[Callable[[], Callback]] = []


@contextmanager
def adding_callback(make: Callable[[], Callback]) -> Iterator[None]:
    """Give each trainer that is set up inside of the block one callback more.

    Args:
        make: makes the callback, a new one for each training.
    """
    _makers.append(make)
    try:
        yield
    finally:
        _makers.pop()


def added_callbacks() -> list[Callback]:
    """Return new callbacks for a training that is set up now; none outside of a block."""
    return [make() for make in _makers]
