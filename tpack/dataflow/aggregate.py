"""From a list of data points to one data point that is a batch.

The points must be alike: the same components, each of one dtype and one shape. What differs is refused and named, and
never cast or broadcast: a batch of other numbers than the data is found late.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError, DataPointError

# The types that Python's own numbers get. Strings stay Python objects, since numpy's cut zero bytes off.
_DTYPES = {bool: np.dtype("bool"), int: np.dtype("int32"), float: np.dtype("float32")}
_OBJECT = np.dtype(object)
_INT32 = np.iinfo("int32")


def aggregate(points: Sequence[Any], *, use_list: bool = False, first_index: int = 0) -> Any:
    """Make a batch of data points.

    Args:
        points: the data points, at least one: all lists or tuples, or all dicts.
        use_list: whether a component of the batch is the list of the points' components, and not an array; then they
            may be of any type and shape.
        first_index: the index of the first point in its pass, for messages.

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
        columns = [_stack(column, key, first_index) for key, column in zip(keys, columns, strict=True)]
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


def _stack(values: list[Any], key: Hashable, first_index: int) -> np.ndarray:
    """Make one array of a component of all points."""
    kinds = [_kind(value, key, index) for index, value in enumerate(values, first_index)]
    dtype, shape = kinds[0]
    if any(kind != kinds[0] for kind in kinds):
        index = next(k for k, kind in enumerate(kinds) if kind != kinds[0])
        raise DataPointError(
            f"component {key!r} of data point {first_index + index} has shape {kinds[index][1]} and dtype "
            f"{kinds[index][0]}, and of data point {first_index} shape {shape} and dtype {dtype}: "
            "a batch wants them alike; or use use_list=True"
        )
    return np.stack(values) if shape else np.array(values, dtype)


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
    if type(value) is int and not _INT32.min <= value <= _INT32.max:
        raise DataPointError(f"component {key!r} of data point {index} is {value}, which is no int32: use np.int64")
    return _DTYPES[type(value)], ()
