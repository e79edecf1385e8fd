"""Data points put together into batches, all alike or by their shape.

The points of a batch must have the same components, each of one dtype and shape; they are never cast or broadcast.

Waiting points each hold memory that the system provides page by page, which costs more than copying, and have left the
processor's cache when put together. So large arrays are copied to their row of the batch as they come; small arrays are
kept and copied at once, which is faster.
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.base import DataFlow, DataFlowReentrantGuard, ProxyDataFlow, length_or_none
from tpack.dataflow.iterator_state import Passes, StateReader, freeze_points, make_state
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils.validation import check_arguments, check_count, mismatch

# The dtypes of Python's own numbers. Strings stay Python objects, since numpy's lose zero bytes at the end.
_DTYPES = {bool: np.dtype("bool"), int: np.dtype("int32"), float: np.dtype("float32")}
_OBJECT = np.dtype(object)
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
# From this size on, arrays are copied as they come.
_LARGE_BYTES = 4096
# A batch size may far exceed the number of points, to have all of them in one batch.
_MAX_ARRAY_BYTES = 1 << 30


@check_arguments
class BatchData(ProxyDataFlow):
    """Yield batches: data points like those of ``ds``, whose components have one more dimension, the first.

    See `aggregate` for the batch of each type. Components of different dtypes are refused; tensorpack casts them to the
    first.

    Args:
        remainder: yield the last, maybe smaller, batch of a pass.
        use_list: make components lists and not arrays, so that shapes may differ.

    Raises:
        ConfigError: The batch size is less than 1; or, without ``remainder``, more than the length of ``ds``.
    """

    holds_nothing_back = True
    # The size in the states of a copy that makes batches of another size for a while.
    _size_to_tell: int | None = None

    def __init__(self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False) -> None:
        super().__init__(ds)
        self.batch_size = check_count(self, "batch_size", batch_size)
        self.remainder = remainder
        self.use_list = use_list
        # Whether all data points were taken from ``ds``, the last of them for a smaller batch.
        self._passes: Passes[bool] = Passes(False)
        length = length_or_none(ds)
        if length is not None and length < self.batch_size and not remainder:
            expected = f"at most {length}, the number of data points"
            raise ConfigError(mismatch(self, "batch_size", batch_size, expected, "remainder=True for smaller batches"))

    def __len__(self) -> int:
        full, rest = divmod(len(self.ds), self.batch_size)
        return full + int(self.remainder and rest > 0)

    def __iter__(self) -> Iterator[Any]:
        for points, first_index in self.groups(None if self.use_list else begin_batch):
            batches = [aggregate(points, use_list=self.use_list, first_index=first_index)]
            # Neither points nor batch are kept here while the next is gathered: their memory is used again.
            del points
            yield batches.pop()

    def groups(self, begin: Callable[[Any, int], list[Any]] | None = None) -> Iterator[tuple[list[Any], int]]:
        """Begin a pass; yield each batch's points, in the list from ``begin(first, size)``, and its first index."""
        one = self._passes.begin()
        points: list[Any] = []
        first_index = 0
        for point in () if one.value else self.ds:
            if not points:
                points = [] if begin is None else begin(point, self.batch_size)
            points.append(point)
            if len(points) == self.batch_size:
                yield points, first_index
                first_index += len(points)
                points = []
        if points and self.remainder:
            one.value = True
            yield points, first_index
        self._passes.end(one)

    def made_in(self, empty: Callable[..., np.ndarray]) -> Iterator[Any] | None:
        """Begin a pass of batches whose arrays are in memory from ``empty(shape, dtype)``.

        Return None if the batches are lists, or if a subclass may make its own.
        """
        if type(self) is not BatchData or self.use_list:
            return None
        groups = self.groups(lambda first, size: begin_batch(first, size, empty))
        return (aggregate(points, first_index=index, empty=empty) for points, index in groups)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, whether its last points were a smaller batch, and the batch size."""
        size = self._size_to_tell or self.batch_size
        return make_state(self, ds=self.ds.state_dict(), is_over=self._passes.value, batch_size=size)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position, also to that of batches of another size."""
        # States of older versions have no size.
        if isinstance(state, Mapping) and "batch_size" not in state:
            state = {**state, "batch_size": self.batch_size}
        saved = StateReader(self, state, "ds", "is_over", "batch_size")
        is_over, size = saved.flag("is_over"), saved.count("batch_size")
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to(is_over)
        if self._size_to_tell is not None:
            self.batch_size = size

    def in_saved_batches(self) -> "BatchData":
        """Return a copy that makes, and repeats, batches of the size in its loaded state, but saves this size."""
        alike = copy.copy(self)
        alike._size_to_tell = self.batch_size
        return alike

    @staticmethod
    def aggregate_batch(data_holder: Sequence[Any], use_list: bool = False) -> list[Any] | dict[Any, Any]:
        """Make a batch of a list of data points, as `aggregate` does."""
        return aggregate(data_holder, use_list=use_list)


@check_arguments
class BatchDataByShape(ProxyDataFlow):
    """Yield batches of data points in which one component has the same shape; raise ConfigError for an empty batch.

    Points wait for others of their shape, also from one pass to the next; those of a rare shape may wait for ever. One
    pass at a time is allowed. The position includes the waiting points.

    Args:
        ds: a flow of lists, tuples or dicts.
        batch_size: the number of data points of a batch.
        idx: the component whose shape matters: its place, or its key in a dict.
    """

    def __init__(self, ds: DataFlow, batch_size: int, idx: int | str) -> None:
        super().__init__(ds)
        self.batch_size = check_count(self, "batch_size", batch_size)
        self.idx = idx
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._waiting: dict[tuple[int, ...], list[Any]] = {}

    def __len__(self) -> int:
        """Return the average number of batches of a pass if no point waits for ever."""
        return len(self.ds) // self.batch_size

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the waiting points."""
        super().reset_state()
        self._waiting = {}

    def __iter__(self) -> Iterator[Any]:
        with self._guard:
            for number, point in enumerate(self.ds):
                shape = self._shape_of(point, f"data point {number}")
                group = self._waiting.setdefault(shape, [])
                group.append(point)
                if len(group) == self.batch_size:
                    del self._waiting[shape]
                    yield aggregate(group)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow and the waiting points."""
        waiting = [point for group in self._waiting.values() for point in group]
        return make_state(self, ds=self.ds.state_dict(), points=freeze_points(self, waiting))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position; refuse one of another flow."""
        saved = StateReader(self, state, "ds", "points")
        waiting: dict[tuple[int, ...], list[Any]] = {}
        for number, point in enumerate(saved.points("points")):
            waiting.setdefault(self._shape_of(point, f"data point {number} of a state"), []).append(point)
        longest = max(map(len, waiting.values()), default=0)
        if longest >= self.batch_size:
            raise InputError(
                f"BatchDataByShape got a state with {longest} waiting data points of one shape: expected fewer than "
                f"batch_size={self.batch_size}; use the batch size of the run that saved it"
            )
        self.ds.load_state_dict(saved["ds"])
        self._waiting = waiting

    def _shape_of(self, point: Any, name: str) -> tuple[int, ...]:
        if not isinstance(point, (list, tuple, Mapping)):
            raise DataPointError(f"{name} is a {type(point).__name__}: expected a list, a tuple or a dict")
        try:
            return np.shape(point[self.idx])  # type: ignore[index]
        except (LookupError, TypeError, ValueError) as error:
            raise DataPointError(f"{name} has no component {self.idx!r} with a shape: {error}") from error


def aggregate(
    points: Sequence[Any], *, use_list: bool = False, first_index: int = 0, empty: Callable[..., np.ndarray] = np.empty
) -> list[Any] | dict[Any, Any]:
    """Make a batch of data points.

    Args:
        points: at least one data point: all lists or tuples, or all dicts. Arrays of a `PreallocatedPoints` are filled
            already.
        use_list: make components lists of any types and shapes.
        first_index: the index of the first point in its pass, for messages.
        empty: called with a shape and a dtype to get the memory of an array; not for single numbers or objects.

    Returns:
        A list, or a dict with the keys of the points, of arrays with a new first dimension. Python's bool, int and
        float become bool, int32 and float32; strings and bytes become arrays of objects.

    Shapes:
        B data points with a component of shape S become an array of shape [B, *S].

    Raises:
        ConfigError: There is no data point.
        DataPointError: The points have different components, or one of which no array can be made.
    """
    if not points:
        raise ConfigError("aggregate got 0 data points: expected at least 1")
    if isinstance(points[0], Mapping):
        keys: list[Hashable] = list(points[0])
        _check_keys(points, first_index)
        columns: list[Any] = [[point[key] for point in points] for key in keys]
    else:
        _check_lengths(points, first_index)
        columns = [list(column) for column in zip(*points, strict=True)]
        keys = list(range(len(columns)))
    if not use_list:
        filled = points.arrays if isinstance(points, PreallocatedPoints) else {}
        columns = [
            _stack(column, key, first_index, filled.get(key), empty) for key, column in zip(keys, columns, strict=True)
        ]
    return dict(zip(keys, columns, strict=True)) if isinstance(points[0], Mapping) else columns


def begin_batch(first: object, size: int, empty: Callable[..., np.ndarray] = np.empty) -> list[Any]:
    """Return an empty list to gather the data points of a batch in, a `PreallocatedPoints` if they have large arrays.

    Args:
        first: the first of them, not added yet. Anything else than a data point is refused when the batch is made.
        size: the maximum number of points of the batch.
        empty: called with a shape and a dtype to get the memory of an array.
    """
    items: Iterable[tuple[Any, Any]] = enumerate(first) if isinstance(first, (list, tuple)) else ()
    if isinstance(first, Mapping):
        items = first.items()
    large = {
        key: value
        for key, value in items
        if isinstance(value, np.ndarray)
        and not value.dtype.hasobject
        and value.nbytes >= _LARGE_BYTES
        and value.nbytes * size <= _MAX_ARRAY_BYTES
    }
    arrays = {key: empty((size, *value.shape), value.dtype) for key, value in large.items()}
    return PreallocatedPoints(arrays, are_dicts=isinstance(first, Mapping)) if arrays else []


class PreallocatedPoints(list[Any]):
    """A list of data points for `aggregate`, whose large arrays are rows of ``arrays``, by place or key.

    Points unlike the first, of which ``are_dicts`` says whether all should be dicts, are kept so that they are refused.
    """

    def __init__(self, arrays: dict[Any, np.ndarray], *, are_dicts: bool) -> None:
        super().__init__()
        self.arrays = arrays
        self._are_dicts = are_dicts

    def append(self, point: object) -> None:
        """Add a point; arrays in it that were copied may be changed afterwards."""
        is_like = isinstance(point, Mapping) if self._are_dicts else isinstance(point, (list, tuple))
        super().append(self._with_rows(point) if is_like else point)

    def _with_rows(self, point: Any) -> list[Any] | dict[Any, Any]:
        """Return a point with rows in place of the arrays like them."""
        copied: list[Any] | dict[Any, Any] = dict(point) if self._are_dicts else list(point)
        for key, array in self.arrays.items():
            is_there = key in copied if self._are_dicts else key < len(copied)
            value = copied[key] if is_there else None
            if isinstance(value, np.ndarray) and value.shape == array.shape[1:] and value.dtype == array.dtype:
                copied[key] = array[len(self), ...]
                copied[key][...] = value
        return copied


def _check_keys(points: Sequence[Any], first_index: int) -> None:
    """Refuse points that are not dicts with the keys of the first."""
    for index, point in enumerate(points, first_index):
        if not isinstance(point, Mapping):
            kind = type(point).__name__
            raise DataPointError(f"data point {index} is a {kind}: expected a dict, like data point {first_index}")
        if point.keys() != points[0].keys():
            first = f"{list(points[0])}, like data point {first_index}"
            raise DataPointError(f"data point {index} has the components {list(point)}: expected {first}")


def _check_lengths(points: Sequence[Any], first_index: int) -> None:
    """Refuse points that are not lists or tuples of the length of the first."""
    for index, point in enumerate(points, first_index):
        if not isinstance(point, (list, tuple)):
            raise DataPointError(f"data point {index} is a {type(point).__name__}: expected a list, a tuple or a dict")
        if len(point) != len(points[0]):
            first = f"{len(points[0])}, like data point {first_index}"
            raise DataPointError(f"data point {index} has {len(point)} components: expected {first}")


def _stack(
    values: list[Any], key: Hashable, first_index: int, filled: np.ndarray | None, empty: Callable[..., np.ndarray]
) -> np.ndarray:
    """Make an array of a component of all points; one that was filled has their rows already."""
    if not _are_alike(values):
        _check_alike(values, key, first_index)
    if filled is not None:
        return filled[: len(values)]
    dtype, shape = _kind(values[0], key, first_index)
    if not shape:
        return np.array(values, dtype)
    # As np.stack, without its view for each value: less than half its time for small arrays.
    if dtype.hasobject:
        return np.concatenate(values).reshape(len(values), *shape)
    memory = empty((len(values) * shape[0], *shape[1:]), dtype)
    return np.concatenate(values, out=memory).reshape(len(values), *shape)


def _are_alike(values: list[Any]) -> bool:
    """Tell cheaply whether values are arrays of one kind, or integers in range; False leaves it open."""
    types = set(map(type, values))
    if types == {np.ndarray}:
        dtype, shape = values[0].dtype, values[0].shape
        return all(value.shape == shape and value.dtype == dtype for value in values)
    return types == {int} and min(values) >= _INT32_MIN and max(values) <= _INT32_MAX


def _check_alike(values: list[Any], key: Hashable, first_index: int) -> None:
    """Refuse a component with another dtype or shape than in the first point."""
    dtype, shape = _kind(values[0], key, first_index)
    for index, value in enumerate(values, first_index):
        other_dtype, other_shape = _kind(value, key, index)
        if (other_dtype, other_shape) != (dtype, shape):
            raise DataPointError(
                f"component {key!r} of data point {index} has shape {other_shape} and dtype {other_dtype}: expected "
                f"shape {shape} and dtype {dtype}, like data point {first_index}; or use use_list=True"
            )


def _kind(value: object, key: Hashable, index: int) -> tuple[np.dtype, tuple[int, ...]]:
    """Return dtype and shape of a component in an array."""
    if isinstance(value, (str, bytes)):
        return _OBJECT, ()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype, value.shape
    if type(value) not in _DTYPES:
        raise DataPointError(
            f"component {key!r} of data point {index} is a {type(value).__name__}: expected an array, a number or a "
            "string; or use use_list=True"
        )
    if type(value) is int and not _INT32_MIN <= value <= _INT32_MAX:
        raise DataPointError(f"component {key!r} of data point {index} is {value}: expected an int32; use np.int64")
    return _DTYPES[type(value)], ()
