"""Iterables of other libraries as flows, without importing any of them.

What an object can do is what counts: be iterated, have a length, tell its position. That fits a PyTorch ``DataLoader``
or data set, torchdata's ``StatefulDataLoader``, a grain data set or loader, and a Hugging Face data set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.dataflow.foreign_reader import Reader, is_indexed, open_reader
from tpack.dataflow.foreign_state import is_tensor, thaw_state
from tpack.dataflow.passes import Pass, Passes, leave
from tpack.dataflow.state import make_state, read_count, read_flag, read_state
from tpack.errors import ConfigError


def as_dataflow(obj: Any) -> DataFlow:
    """Return an object as a flow.

    Args:
        obj: a DataFlow, which is returned itself, or anything that `AdaptedData` takes.

    Raises:
        ConfigError: It is no such object.
    """
    return obj if isinstance(obj, DataFlow) else AdaptedData(obj)


class AdaptedData(DataFlow):
    """Yield what a foreign iterable yields, with its tensors as numpy arrays.

    Tensors, in data points and in what is nested in them, become arrays if they can do what those of PyTorch can, or
    have ``__array__`` or ``__array_interface__``; memory is shared where that is possible. A point that is neither a
    list, a tuple nor a dict becomes a list of one component.

    Its position is what the object tells: the iterator by ``get_state`` and ``set_state`` (grain), or the iterable by
    ``state_dict`` and ``load_state_dict`` (torchdata, Hugging Face); what random order later passes have after an
    interruption is then up to the object. Of others it is the number of points taken. Those that can be indexed go to
    it at once; of the rest points are taken and dropped until it is reached, so they must yield the same again.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        """Make the flow.

        Args:
            iterable: what to iterate, anew on each pass. If it has a length, that is the flow's.

        Raises:
            ConfigError: It cannot be iterated; or it is an iterator, which can be gone through once, or a string.
        """
        kind = type(iterable).__name__
        can_be_read = hasattr(iterable, "__iter__") or is_indexed(iterable)
        if not can_be_read or isinstance(iterable, (str, bytes, Mapping)):
            raise ConfigError(f"AdaptedData got a {kind}: wanted an iterable of data points")
        if isinstance(iterable, Iterator):
            raise ConfigError(f"AdaptedData got a {kind}, which is an iterator: wanted the object that makes it")
        self._iterable = iterable
        self._passes: Passes[int] = Passes(0)
        # What the newest pass reads from; None before the first and after one was given up.
        self._reader: Reader | None = None
        # What the next pass begins with, if it was sent somewhere: the object's own position, and whether that is one
        # after the end of a pass.
        self._own: bytes | None = None
        self._has_ended = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}

    def __len__(self) -> int:
        """Return the length of the iterable.

        Raises:
            UnknownLengthError: It has none, or does not know it.
        """
        kind = type(self._iterable).__name__
        if not isinstance(self._iterable, Sized):
            raise UnknownLengthError(f"the {kind} in AdaptedData has no length")
        try:
            return len(self._iterable)
        except (TypeError, NotImplementedError) as error:
            raise UnknownLengthError(f"the {kind} in AdaptedData does not know its length: {error}") from error

    def reset_state(self) -> None:
        """Forget the position."""
        self.end_pass()

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: It goes on where another was interrupted, and there are too few points to get there.
        """
        one = self._passes.begin()
        own, has_ended = self._own, self._has_ended
        self._own, self._has_ended = None, False
        yield from self._read(one, own)
        if has_ended and one.value == 0 and own is not None:
            # The object stays at the end that it was sent to: a new pass begins without its position.
            yield from self._read(one, None)
        self._has_ended = self._passes.end(one)

    def _read(self, one: Pass[int], own: bytes | None) -> Iterator[Any]:
        """Yield the points from a place on."""
        reader = self._reader = open_reader(self, self._iterable, one.value, own)
        try:
            for point in reader.points:
                converted = _to_arrays(point)
                one.value += 1
                yield converted if isinstance(converted, (list, tuple, dict)) else [converted]
        finally:
            leave(reader.points)

    def state_dict(self) -> dict[str, Any]:
        """Return the object's own position, if it tells one, and the number of points taken.

        Raises:
            StatelessError: The object's position holds something that cannot be kept.
        """
        own, reader = self._own, self._reader
        if reader is not None:
            own = reader.own() if self._passes.has_newest else reader.own_at_end()
        return make_state(self, index=self._passes.value, own=own, has_ended=self._has_ended)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow; nothing was changed. The next pass raises it if points
                are to be dropped and there are too few.
        """
        index, own, has_ended = read_state(self, state, "index", "own", "has_ended")
        index, has_ended = read_count(self, "index", index), read_flag(self, "has_ended", has_ended)
        if own is not None:
            thaw_state(self._iterable, own)
        self._passes.go_to(index)
        self._reader, self._own, self._has_ended = None, own, has_ended

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; an object that tells its own position begins a new one."""
        self._passes.reset()
        self._reader, self._own, self._has_ended = None, None, False


def _to_arrays(value: Any) -> Any:
    """Turn tensors into arrays, also those in lists, tuples and dicts."""
    if isinstance(value, Mapping):
        return {key: _to_arrays(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_arrays, value)) if type(value) in (list, tuple) else tuple(map(_to_arrays, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if is_tensor(value):
        return value.detach().cpu().numpy()
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return value
