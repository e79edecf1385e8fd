"""Checks of augmentors' arguments and images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpack.errors import ConfigError, DataPointError
from tpack.utils.validation import check_count, check_number, mismatch, owner_name, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_MOST_PIXELS = 2**31 - 1
_VALUE_DTYPES = frozenset(map(np.dtype, ("uint8", "float32", "float64")))


def check_image(owner: object, image: object) -> tuple[int, int]:
    """Return height and width of an image whose pixels are only moved, of any dtype.

    Raises:
        DataPointError: It is not an array of numbers of shape (H, W) or (H, W, C), or it is empty.
    """
    array = _check_array(owner, image)
    if array.dtype.kind not in "biufcV":
        raise DataPointError(f"{owner_name(owner)} got an image of dtype {array.dtype}: expected numbers")
    return array.shape[0], array.shape[1]


def check_values(owner: object, image: object, way_out: str = "use ToUint8() or ToFloat32() before it") -> None:
    """Check an image for computing with its values; the message may have a ``way_out``.

    Raises:
        DataPointError: It is not an array of shape (H, W) or (H, W, C) of uint8, float32 or float64, or it is empty.
    """
    array = _check_array(owner, image)
    if array.dtype not in _VALUE_DTYPES:
        name = owner_name(owner)
        raise DataPointError(f"{name} got an image of dtype {array.dtype}: expected uint8 or floats; {way_out}")


def check_numeric_image(owner: object, image: object) -> None:
    """Check an image for conversion to another dtype; raise a DataPointError unless it has real numbers."""
    dtype = _check_array(owner, image).dtype
    if dtype.kind not in "biuf":
        raise DataPointError(f"{owner_name(owner)} got an image of dtype {dtype}: expected real numbers")


def check_image_size(owner: object, image: np.ndarray, height: int, width: int) -> None:
    """Check that an image has the size for which a transform was made; raise a DataPointError otherwise."""
    if check_image(owner, image) != (height, width):
        raise DataPointError(f"{owner!r} got an image of shape {image.shape}: expected height {height}, width {width}")


def check_color(owner: object, image: np.ndarray) -> None:
    """Check that an image has three channels; raise a DataPointError otherwise."""
    check_values(owner, image)
    if image.ndim != 3 or image.shape[2] != 3:
        raise DataPointError(f"{owner_name(owner)} got an image of shape {image.shape}: expected three channels")


def check_points(owner: object, points: ArrayLike, columns: int) -> np.ndarray:
    """Return coordinates (2 columns) or boxes (4 columns) as a new array of floats.

    Raises:
        DataPointError: It has another shape, or no real numbers.
    """
    array = np.array(points)
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "iuf":
        what = "coordinates (x, y)" if columns == 2 else "boxes (x1, y1, x2, y2)"
        raise DataPointError(
            f"{owner_name(owner)} got an array of shape {array.shape} and dtype {array.dtype}: "
            f"expected {what}, real numbers of shape (N, {columns})"
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_range(
    owner: object, name: str, value: Sequence[Any] | np.ndarray, low: float = -np.inf, high: float = np.inf
) -> tuple[Any, Any]:
    """Return a pair in ascending order between two limits; raise ConfigError for anything else."""
    is_pair = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) and len(value) == 2
    if not is_pair:
        raise ConfigError(mismatch(owner, name, value, "(low, high)"))
    first, last = (check_number(owner, f"{name}[{k}]", value[k], low, high) for k in (0, 1))
    if first > last:
        raise ConfigError(mismatch(owner, name, value, "the smaller number first"))
    return first, last


def check_shape(owner: object, name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Return a height and a width given as two integers, or as one for both; raise ConfigError for too many pixels."""
    entries = list(value) if isinstance(value, (tuple, list, np.ndarray)) else [value, value]
    if len(entries) != 2:
        raise ConfigError(mismatch(owner, name, value, "one integer, or height and width"))
    height, width = (check_count(owner, name, entry) for entry in entries)
    if height * width > _MOST_PIXELS:
        given = f"{owner_name(owner)} got {name}={shown(value)}, {height * width} pixels"
        raise ConfigError(f"{given}: expected at most {_MOST_PIXELS}, the limit of OpenCV")
    return height, width


def has_value_dtype(image: np.ndarray) -> bool:
    """Tell whether all versions of OpenCV compute with the dtype of an image."""
    return image.dtype in _VALUE_DTYPES


def _check_array(owner: object, image: object) -> np.ndarray:
    """Return an array with the dimensions of an image."""
    if not isinstance(image, np.ndarray):
        raise DataPointError(f"{owner_name(owner)} got a {type(image).__name__}: expected an image, a numpy array")
    if image.ndim not in (2, 3) or image.size == 0:
        raise DataPointError(f"{owner_name(owner)} got an image of shape {image.shape}: expected (H, W) or (H, W, C)")
    return image
