"""Data points from anything that Python can iterate."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.errors import ConfigError, DataExhaustedError


class DataFromIterable(DataFlow):
    """Yield what an iterable yields.

    An iterator, such as a generator, can usually be gone through only once: a pass goes on where the last one stopped.
    A later pass that finds nothing is an error, since training would otherwise go on without data.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        """Make the flow.

        Args:
            iterable: what to iterate; if it has a length, that is the flow's.

        Raises:
            ConfigError: It cannot be iterated.
        """
        if not hasattr(iterable, "__iter__"):
            raise ConfigError(f"{type(self).__name__} got a {type(iterable).__name__}: wanted an iterable")
        self._iterable = iterable
        self._was_begun = False

    def __len__(self) -> int:
        if not isinstance(self._iterable, Sized):
            raise UnknownLengthError(f"the {type(self._iterable).__name__} in {type(self).__name__} has no length")
        return len(self._iterable)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            DataExhaustedError: The iterable is an iterator, and an earlier pass has used it up.
        """
        was_begun, self._was_begun = self._was_begun, True
        is_empty = True
        # Not ``yield from``, which would close a generator with this one, when a pass is broken off.
        for point in self._iterable:
            is_empty = False
            yield point
        if is_empty and was_begun and isinstance(self._iterable, Iterator):
            raise DataExhaustedError(
                f"{type(self).__name__} got an iterator and an earlier pass has used it up: wanted what can be "
                "iterated again, such as a list, or a generator function for DataFromGenerator"
            )
