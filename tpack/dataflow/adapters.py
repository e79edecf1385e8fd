"""Adapters of other libraries' iterables, without importing any of them.

An object is known by its methods: iteration, a length, a position. That fits a PyTorch ``DataLoader`` or data set,
torchdata's ``StatefulDataLoader``, a grain data set or loader, and a Hugging Face data set. Positions consist of dicts,
lists, tuples, numbers, strings and sometimes a PyTorch tensor; they are kept as bytes without pickling.
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
    """Return a DataFlow itself, a generator function or what `AdaptedData` takes as a flow; refuse others."""
    if isinstance(obj, (FunctionType, MethodType)):
        return DataFromGenerator(obj)
    if isinstance(obj, DataFlow):
        return obj
    _check_readable("as_dataflow", "obj", obj)
    return AdaptedData(cast(Iterable[Any], obj))


@check_arguments
class AdaptedData(DataFlow):
    """Yield the elements of a foreign iterable, with its tensors as numpy arrays.

    Tensors, also nested ones, become arrays if they have the methods of PyTorch's, ``__array__`` or
    ``__array_interface__``; memory is shared where possible. A point that is not a list, a tuple or a dict becomes a
    list of one component.

    The position is the object's own: the iterator's by ``get_state`` and ``set_state`` (grain), or the iterable's by
    ``state_dict`` and ``load_state_dict`` (torchdata, Hugging Face); later passes are then up to the object. Otherwise
    it is the number of points taken. Indexed objects go to it at once; of others points are dropped, so they must yield
    the same again.

    Args:
        iterable: iterated again on each pass. Its length, if any, is the flow's.

    Raises:
        ConfigError: It cannot be iterated; or it is an iterator, which is used up by one pass, or a string.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        _check_readable("AdaptedData", "iterable", iterable)
        self._iterable = iterable
        self._passes: Passes[int] = Passes(0)
        # The reader of the newest pass; None before the first and after one was given up.
        self._reader: _Reader | None = None
        # Where the next pass was sent: the object's own position, and whether that is after the end of a pass.
        self._own: bytes | None = None
        self._has_ended = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}

    def __len__(self) -> int:
        """Return the length of the iterable; raise UnknownLengthError without one."""
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
        one = self._passes.begin()
        own, has_ended = self._own, self._has_ended
        self._own, self._has_ended = None, False
        yield from self._read(one, own)
        if has_ended and one.value == 0 and own is not None:
            # The object stays at its end, where it was sent: a new pass begins without its position.
            yield from self._read(one, None)
        self._has_ended = self._passes.end(one)

    def _read(self, one: Pass[int], own: bytes | None) -> Iterator[Any]:
        reader = self._reader = _open_reader(self, self._iterable, one.value, own)
        try:
            for point in reader.points:
                converted = _to_arrays(point)
                one.value += 1
                yield converted if isinstance(converted, (list, tuple, dict)) else [converted]
        finally:
            close_iterator(reader.points)

    def state_dict(self) -> dict[str, Any]:
        """Return the object's own position, if it has one, and the number of points taken."""
        own, reader = self._own, self._reader
        if reader is not None:
            own = reader.own() if self._passes.has_newest else reader.own_at_end()
        return make_state(self, index=self._passes.value, own=own, has_ended=self._has_ended)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position. The next pass raises InputError if points are dropped and there are too few."""
        saved = StateReader(self, state, "index", "own", "has_ended")
        index, own, has_ended = saved.count("index"), saved["own"], saved.flag("has_ended")
        if own is not None:
            _thaw_state(self._iterable, own)
        self._passes.go_to(index)
        self._reader, self._own, self._has_ended = None, own, has_ended

    def end_pass(self) -> None:
        """Give up the rest of the newest pass; an object with its own position begins a new one."""
        self._passes.reset()
        self._reader, self._own, self._has_ended = None, None, False


def _check_readable(owner: str, name: str, iterable: object) -> None:
    """Refuse objects that cannot be iterated again and again."""
    is_readable = hasattr(iterable, "__iter__") or _is_indexed(iterable)
    if not is_readable or isinstance(iterable, (str, bytes, Mapping, type)):
        raise WrongTypeError(f"{owner} got {name}={shown(iterable)}: expected an iterable of data points")
    if isinstance(iterable, Iterator):
        raise ConfigError(
            f"{owner} got {name}={shown(iterable)}, an iterator: expected an iterable; use the generator function "
            "without its parentheses"
        )


class _Reader:
    """Points of one pass over an object without its own position."""

    def __init__(self, points: Iterator[Any]) -> None:
        self.points = points

    def own(self) -> bytes | None:
        """Return the object's own position after the last point; None if it has none."""
        return None

    def own_at_end(self) -> bytes | None:
        """Return the object's own position after the pass, if it holds more than that a new one begins."""
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

    Iterables with ``set_epoch``, such as Hugging Face's, are copied: otherwise all later passes would begin there, too.
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
        """Return the iterable's position, which may determine the order of the next pass."""
        return self.own()


def _open_reader(owner: DataFlow, iterable: Any, start: int, own: bytes | None) -> _Reader:
    """Begin a pass at the position `own` or after `start` points; raise InputError for a bad one or too few points."""
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
    # PyTorch's loaders look for the last in a data set, and Hugging Face's have it.
    return isinstance(obj, Sequence) or not hasattr(obj, "__iter__") or hasattr(obj, "__getitems__")


def _freeze_state(owner: object, state: object) -> bytes:
    """Turn a foreign position into bytes; raise StatelessError for parts of other types."""
    try:
        return serialize.dumps(_freeze(state))
    except DataPointError as error:
        raise StatelessError(f"the position of a {type(owner).__name__} cannot be saved: {error}") from error


def _thaw_state(owner: object, frozen: object) -> Any:
    """Turn such bytes into a position; raise InputError for others, or a tensor if PyTorch is not imported."""
    message = f"the saved position of a {type(owner).__name__} is invalid"
    if not isinstance(frozen, bytes):
        raise InputError(f"{message}: expected bytes, not a {type(frozen).__name__}")
    try:
        return _thaw(serialize.loads(frozen))
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{message}: {error}") from error


def _freeze(value: Any) -> list[Any]:
    """Return a pair of the type and the content of a value."""
    if isinstance(value, Mapping):
        return [_DICT, [[_freeze(key), _freeze(inner)] for key, inner in value.items()]]
    if isinstance(value, (list, tuple)):
        return [_TUPLE if isinstance(value, tuple) else _LIST, [_freeze(inner) for inner in value]]
    if _is_tensor(value):
        return [_TENSOR, value.detach().cpu().numpy()]
    return [_PLAIN, value]


def _thaw(pair: Sequence[Any]) -> Any:
    """Return the value of a pair from ``_freeze``."""
    kind, content = pair
    if kind == _DICT:
        return {_thaw(key): _thaw(value) for key, value in content}
    if kind in (_LIST, _TUPLE):
        values = [_thaw(value) for value in content]
        return values if kind == _LIST else tuple(values)
    return _make_tensor(content) if kind == _TENSOR else content


def _to_arrays(value: Any) -> Any:
    """Turn tensors into arrays, also in lists, tuples and dicts."""
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
    """Tell whether a value has the methods of a PyTorch tensor."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _make_tensor(array: np.ndarray) -> object:
    """Return an array as a PyTorch tensor; the object that takes it has imported PyTorch already."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise InputError("it has a tensor of PyTorch, which is not imported")
    return torch.from_numpy(array)
