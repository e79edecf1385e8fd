"""Data points from anything that Python can iterate."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.dataflow.passes import Passes, skip
from tpack.dataflow.state import make_state, read_count, read_flag, read_state
from tpack.errors import ConfigError, DataExhaustedError, InputError


class DataFromIterable(DataFlow):
    """Yield what an iterable yields.

    An iterator, such as a generator, can usually be gone through only once: a pass goes on where the last one stopped.
    A later pass that finds nothing is an error, since training would otherwise go on without data.

    To go to a position, it takes and drops what was taken before. The iterable must therefore yield the same again in
    another process, which a set of strings for example does not.
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
        self._passes: Passes[int] = Passes(0)
        # Of an iterator, over all passes: how many points were taken, and how many are to be dropped first.
        self._num_taken = 0
        self._num_to_skip = 0

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
        one = self._passes.begin()
        points = iter(self._iterable)
        self._skip(points, one.value)
        # Not ``yield from``, which would close a generator with this one, when a pass is broken off.
        for point in points:
            one.value += 1
            self._num_taken += 1
            yield point
        self._passes.end(one)
        if one.value == 0 and was_begun and self._is_iterator():
            raise DataExhaustedError(
                f"{type(self).__name__} got an iterator and an earlier pass has used it up: wanted what can be "
                "iterated again, such as a list, or a generator function for DataFromGenerator"
            )

    def reset_state(self) -> None:
        """Forget the position; an iterator stays where it is."""
        self._passes.reset()
        self._num_to_skip = 0

    def state_dict(self) -> dict[str, Any]:
        """Return how many points were taken."""
        taken = self._num_taken + self._num_to_skip if self._is_iterator() else 0
        return make_state(self, index=self._passes.value, taken=taken, was_begun=self._was_begun)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position: the next pass drops what was taken before.

        Raises:
            InputError: The state is of another kind of flow, or lies before the place of an iterator; nothing was
                changed. The next pass raises it if the iterable ends too early.
        """
        index, taken, was_begun = read_state(self, state, "index", "taken", "was_begun")
        index, taken = read_count(self, "index", index), read_count(self, "taken", taken)
        was_begun = read_flag(self, "was_begun", was_begun)
        if self._is_iterator() and taken < self._num_taken:
            raise InputError(
                f"{type(self).__name__} was to go on after data point {taken} of an iterator that has given "
                f"{self._num_taken}: an iterator cannot go back"
            )
        self._was_begun = was_begun
        self._num_to_skip = taken - self._num_taken if self._is_iterator() else 0
        self._passes.go_to(index)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; an iterator stays where it is."""
        self._passes.reset()

    def _is_iterator(self) -> bool:
        return isinstance(self._iterable, Iterator)

    def _skip(self, points: Iterator[Any], num_taken_in_pass: int) -> None:
        """Drop the points that were taken before the interruption."""
        if self._is_iterator():
            count, self._num_to_skip = self._num_to_skip, 0
            skip(self, points, count)
            self._num_taken += count
        else:
            skip(self, points, num_taken_in_pass)
