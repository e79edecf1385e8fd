"""From a list of data points to one data point that is a batch.

The points must be alike: the same components, each of one dtype and one shape. What differs is refused and named, and
never cast or broadcast: a batch of other numbers than the data is found late.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.placed_points import PlacedPoints
from tpack.errors import ConfigError, DataPointError

# The types that Python's own numbers get. Strings stay Python objects, since numpy's cut zero bytes off.
_DTYPES = {bool: np.dtype("bool"), int: np.dtype("int32"), float: np.dtype("float32")}
_OBJECT = np.dtype(object)
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def aggregate(
    points: Sequence[Any],
    *,
    use_list: bool = False,
    first_index: int = 0,
    empty: Callable[..., np.ndarray] = np.empty,
) -> Any:
    """Make a batch of data points.

    Args:
        points: the data points, at least one: all lists or tuples, or all dicts. In a `PlacedPoints` the arrays are
            made already.
        use_list: whether a component of the batch is the list of the points' components, and not an array; then they
            may be of any type and shape.
        first_index: the index of the first point in its pass, for messages.
        empty: called with a shape and a dtype to get the memory of an array; not for arrays of numbers or of objects.

    Returns:
        A list, or a dict with the keys of the points, of arrays with a new first dimension. Python's bool, int and
        float become bool, int32 and float32; strings and bytes become arrays of objects.

    Shapes:
        B data points with a component of shape S become an array of shape [B, *S].

    Raises:
        ConfigError: There is no data point.
        DataPointError: The points have unlike components, or one that no array can be made of.
    """
    if not points:
        raise ConfigError("a batch of 0 data points cannot be made: wanted at least one")
    if isinstance(points[0], Mapping):
        keys: list[Hashable] = list(points[0])
        _check_keys(points, first_index)
        columns: list[Any] = [[point[key] for point in points] for key in keys]
    else:
        _check_lengths(points, first_index)
        columns = [list(column) for column in zip(*points, strict=True)]
        keys = list(range(len(columns)))
    if not use_list:
        placed = points.arrays if isinstance(points, PlacedPoints) else {}
        columns = [
            _stack(column, key, first_index, placed.get(key), empty) for key, column in zip(keys, columns, strict=True)
        ]
    return dict(zip(keys, columns, strict=True)) if isinstance(points[0], Mapping) else columns


def _check_keys(points: Sequence[Any], first_index: int) -> None:
    """Refuse points that are no dicts with the keys of the first."""
    for index, point in enumerate(points, first_index):
        if not isinstance(point, Mapping):
            raise DataPointError(f"data point {index} is a {type(point).__name__}, and data point {first_index} a dict")
        if point.keys() != points[0].keys():
            raise DataPointError(
                f"data point {index} has the components {list(point)}, and data point {first_index} {list(points[0])}"
            )


def _check_lengths(points: Sequence[Any], first_index: int) -> None:
    """Refuse points that are no lists or tuples with as many components as the first."""
    for index, point in enumerate(points, first_index):
        if not isinstance(point, (list, tuple)):
            raise DataPointError(f"data point {index} is a {type(point).__name__}: wanted a list, a tuple or a dict")
        if len(point) != len(points[0]):
            raise DataPointError(
                f"data point {index} has {len(point)} components, and data point {first_index} has {len(points[0])}"
            )


def _stack(
    values: list[Any],
    key: Hashable,
    first_index: int,
    placed: np.ndarray | None,
    empty: Callable[..., np.ndarray],
) -> np.ndarray:
    """Make one array of a component of all points, unless it was placed: then those that are alike are rows of it."""
    if not _are_alike(values):
        _check_alike(values, key, first_index)
    if placed is not None:
        return placed[: len(values)]
    dtype, shape = _kind(values[0], key, first_index)
    if not shape:
        return np.array(values, dtype)
    # As np.stack, without its view for each value: less than half its time for small arrays.
    if dtype.hasobject:
        return np.concatenate(values).reshape(len(values), *shape)
    memory = empty((len(values) * shape[0], *shape[1:]), dtype)
    return np.concatenate(values, out=memory).reshape(len(values), *shape)


def _are_alike(values: list[Any]) -> bool:
    """Tell at small cost whether values are arrays of one kind, or integers in range; False leaves it open."""
    types = set(map(type, values))
    if types == {np.ndarray}:
        dtype, shape = values[0].dtype, values[0].shape
        return all(value.shape == shape and value.dtype == dtype for value in values)
    return types == {int} and min(values) >= _INT32_MIN and max(values) <= _INT32_MAX


def _check_alike(values: list[Any], key: Hashable, first_index: int) -> None:
    """Refuse a component that has another dtype or shape than in the first point, or none at all."""
    dtype, shape = _kind(values[0], key, first_index)
    for index, value in enumerate(values, first_index):
        other_dtype, other_shape = _kind(value, key, index)
        if (other_dtype, other_shape) != (dtype, shape):
            raise DataPointError(
                f"component {key!r} of data point {index} has shape {other_shape} and dtype {other_dtype}, and of data "
                f"point {first_index} shape {shape} and dtype {dtype}: a batch wants them alike; or use use_list=True"
            )


def _kind(value: Any, key: Hashable, index: int) -> tuple[np.dtype, tuple[int, ...]]:
    """Return dtype and shape that a component has in an array."""
    if isinstance(value, (str, bytes)):
        return _OBJECT, ()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype, value.shape
    if type(value) not in _DTYPES:
        raise DataPointError(
            f"component {key!r} of data point {index} is a {type(value).__name__}: "
            "an array is made of arrays, numbers or strings; or use use_list=True"
        )
    if type(value) is int and not _INT32_MIN <= value <= _INT32_MAX:
        raise DataPointError(f"component {key!r} of data point {index} is {value}, which is no int32: use np.int64")
    return _DTYPES[type(value)], ()
