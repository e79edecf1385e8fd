"""Iterables of other libraries as flows, without importing any of them.

What an object can do is what counts: be iterated, have a length, tell its position. That fits a PyTorch ``DataLoader``
or data set, torchdata's ``StatefulDataLoader``, a grain data set or loader, and a Hugging Face data set. Such a one is
read from a place on by index, by the position that it tells, or by dropping points. The positions that they tell are
made of dicts, lists, tuples, numbers, strings and now and then a tensor of PyTorch; they are kept as bytes without
pickling, and each part comes back as what it was.
"""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from types import FunctionType, MethodType
from typing import Any, cast

import numpy as np

from tpack.dataflow.base import DataFlow, UnknownLengthError
from tpack.dataflow.iterator_state import Pass, Passes, StatelessError, StateReader, close_iterator, make_state, skip
from tpack.dataflow.sources import DataFromGenerator
from tpack.errors import ConfigError, DataPointError, InputError, WrongTypeError
from tpack.utils import serialize
from tpack.utils.validation import check_arguments, shown

_DICT, _LIST, _TUPLE, _TENSOR, _PLAIN = "dict", "list", "tuple", "tensor", "plain"


@check_arguments
def as_dataflow(obj: Iterable[Any] | Callable[[], Iterable[Any]]) -> DataFlow:
    """Return an object as a flow.

    Args:
        obj: a DataFlow, which is returned itself, a generator function, or anything that `AdaptedData` takes.

    Raises:
        ConfigError: It is not such an object.
    """
    if isinstance(obj, (FunctionType, MethodType)):
        return DataFromGenerator(obj)
    if isinstance(obj, DataFlow):
        return obj
    _check_readable("as_dataflow", "obj", obj)
    return AdaptedData(cast(Iterable[Any], obj))


@check_arguments
class AdaptedData(DataFlow):
    """Yield what a foreign iterable yields, with its tensors as numpy arrays.

    Tensors, in data points and in what is nested in them, become arrays if they can do what those of PyTorch can, or
    have ``__array__`` or ``__array_interface__``; memory is shared where that is possible. A point that is neither a
    list, a tuple nor a dict becomes a list of one component.

    Its position is what the object tells: the iterator by ``get_state`` and ``set_state`` (grain), or the iterable by
    ``state_dict`` and ``load_state_dict`` (torchdata, Hugging Face); what random order later passes have after an
    interruption is then up to the object. Of others it is the number of points taken. Those that can be indexed go to
    it at once; of the rest points are taken and dropped until it is reached, so they must yield the same again.

    Args:
        iterable: what to iterate, anew on each pass. If it has a length, that is the flow's.

    Raises:
        ConfigError: It cannot be iterated; or it is an iterator, which can be gone through once, or a string.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        _check_readable("AdaptedData", "iterable", iterable)
        self._iterable = iterable
        self._passes: Passes[int] = Passes(0)
        # What the newest pass reads from; None before the first and after one was given up.
        self._reader: _Reader | None = None
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
        reader = self._reader = _open_reader(self, self._iterable, one.value, own)
        try:
            for point in reader.points:
                converted = _to_arrays(point)
                one.value += 1
                yield converted if isinstance(converted, (list, tuple, dict)) else [converted]
        finally:
            close_iterator(reader.points)

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
        saved = StateReader(self, state, "index", "own", "has_ended")
        index, own, has_ended = saved.count("index"), saved["own"], saved.flag("has_ended")
        if own is not None:
            _thaw_state(self._iterable, own)
        self._passes.go_to(index)
        self._reader, self._own, self._has_ended = None, own, has_ended

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; an object that tells its own position begins a new one."""
        self._passes.reset()
        self._reader, self._own, self._has_ended = None, None, False


def _check_readable(owner: str, name: str, iterable: object) -> None:
    """Refuse what cannot be read as data points, again and again."""
    is_readable = hasattr(iterable, "__iter__") or _is_indexed(iterable)
    if not is_readable or isinstance(iterable, (str, bytes, Mapping, type)):
        raise WrongTypeError(f"{owner} got {name}={shown(iterable)}: expected an iterable of data points")
    if isinstance(iterable, Iterator):
        raise ConfigError(
            f"{owner} got {name}={shown(iterable)}, an iterator: expected what makes it, such as "
            "a generator function without its parentheses"
        )


class _Reader:
    """Points of one pass, read by an object that does not tell where it is."""

    def __init__(self, points: Iterator[Any]) -> None:
        self.points = points

    def own(self) -> bytes | None:
        """Return the object's own position, after the last point that was taken; None if it tells none."""
        return None

    def own_at_end(self) -> bytes | None:
        """Return the object's own position after the pass, where it knows more than that a new one begins."""
        return None


class _IteratorReader(_Reader):
    """Points of an iterator with ``get_state`` and ``set_state``, such as one of grain."""

    def __init__(self, points: Any, own: bytes | None) -> None:
        super().__init__(points)
        self._iterator = points
        if own is not None:
            points.set_state(_thaw_state(points, own))

    def own(self) -> bytes | None:
        """Return the iterator's position."""
        return _freeze_state(self._iterator, self._iterator.get_state())


class _LoaderReader(_Reader):
    """Points of an iterable with ``state_dict`` and ``load_state_dict``, such as a ``StatefulDataLoader``.

    Of one with ``set_epoch``, as those of Hugging Face, it is a copy: they would begin all later passes there, too.
    """

    def __init__(self, iterable: Any, own: bytes | None) -> None:
        self._loader = iterable
        if own is not None:
            self._loader = copy.deepcopy(iterable) if hasattr(iterable, "set_epoch") else iterable
            self._loader.load_state_dict(_thaw_state(iterable, own))
        super().__init__(iter(self._loader))

    def own(self) -> bytes | None:
        """Return the iterable's position."""
        return _freeze_state(self._loader, self._loader.state_dict())

    def own_at_end(self) -> bytes | None:
        """Return the iterable's position: it may hold what the order of the next pass is drawn from."""
        return self.own()


def _open_reader(owner: DataFlow, iterable: Any, start: int, own: bytes | None) -> _Reader:
    """Begin a pass over a foreign iterable.

    Args:
        owner: the flow that reads, for messages.
        iterable: the object.
        start: how many points were taken before.
        own: the object's own position there, if it told one.

    Raises:
        InputError: Points are to be dropped and there are too few, or ``own`` is not such a position.
    """
    if hasattr(iterable, "state_dict") and hasattr(iterable, "load_state_dict"):
        return _LoaderReader(iterable, own)
    if _is_indexed(iterable):
        return _Reader(iterable[index] for index in range(start, len(iterable)))
    points = iter(iterable)
    if hasattr(points, "get_state") and hasattr(points, "set_state"):
        return _IteratorReader(points, own)
    skip(owner, points, start)
    return _Reader(points)


def _is_indexed(obj: object) -> bool:
    """Tell whether data points can be read by their numbers."""
    if not (hasattr(obj, "__len__") and hasattr(obj, "__getitem__")):
        return False
    # The last is what PyTorch's loaders look for in a data set, and Hugging Face's has.
    return isinstance(obj, Sequence) or not hasattr(obj, "__iter__") or hasattr(obj, "__getitems__")


def _freeze_state(owner: object, state: object) -> bytes:
    """Turn a foreign position into bytes.

    Args:
        owner: whose position it is, for the message.
        state: the position.

    Raises:
        StatelessError: It holds something else than those kinds.
    """
    try:
        return serialize.dumps(_freeze(state))
    except DataPointError as error:
        raise StatelessError(f"the position of a {type(owner).__name__} cannot be kept: {error}") from error


def _thaw_state(owner: object, frozen: object) -> Any:
    """Turn bytes from ``_freeze_state`` back into a position.

    Raises:
        InputError: They are something else, or hold a tensor and PyTorch is not imported.
    """
    message = f"the bytes that should be the position of a {type(owner).__name__} are not one"
    if not isinstance(frozen, bytes):
        raise InputError(f"{message}, but a {type(frozen).__name__}")
    try:
        return _thaw(serialize.loads(frozen))
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{message}: {error}") from error


def _freeze(value: Any) -> list[Any]:
    """Return a pair of what a value is and what it holds."""
    if isinstance(value, Mapping):
        return [_DICT, [[_freeze(key), _freeze(inner)] for key, inner in value.items()]]
    if isinstance(value, (list, tuple)):
        return [_TUPLE if isinstance(value, tuple) else _LIST, [_freeze(inner) for inner in value]]
    if _is_tensor(value):
        return [_TENSOR, value.detach().cpu().numpy()]
    return [_PLAIN, value]


def _thaw(pair: Sequence[Any]) -> Any:
    """Return the value that a pair stands for."""
    kind, content = pair
    if kind == _DICT:
        return {_thaw(key): _thaw(value) for key, value in content}
    if kind in (_LIST, _TUPLE):
        values = [_thaw(value) for value in content]
        return values if kind == _LIST else tuple(values)
    return _make_tensor(content) if kind == _TENSOR else content


def _to_arrays(value: Any) -> Any:
    """Turn tensors into arrays, also those in lists, tuples and dicts."""
    if isinstance(value, Mapping):
        return {key: _to_arrays(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_to_arrays, value)) if type(value) in (list, tuple) else tuple(map(_to_arrays, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if _is_tensor(value):
        return value.detach().cpu().numpy()
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return value


def _is_tensor(value: object) -> bool:
    """Tell whether a value can do what a tensor of PyTorch can."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _make_tensor(array: np.ndarray) -> object:
    """Return an array as a tensor; what gets it has imported the library already."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise InputError("there is a tensor of PyTorch in it, which is not imported")
    return torch.from_numpy(array)
