"""Checks of what augmentors are made with and of what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tpack.errors import ConfigError, DataPointError
from tpack.utils.argtools import shape2d

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Number = TypeVar("Number", bound=float)
_VALUE_DTYPES = frozenset(map(np.dtype, ("uint8", "float32", "float64")))


def check_image(owner: object, image: object) -> tuple[int, int]:
    """Return the height and width of an image whose pixels are only moved, of any dtype.

    Args:
        owner: who got it, for the message.
        image: the image.

    Raises:
        DataPointError: It is not an array of numbers of shape (H, W) or (H, W, C), or it is empty.
    """
    array = _check_array(owner, image)
    if array.dtype.kind not in "biufcV":
        raise DataPointError(f"{type(owner).__name__} got an image of dtype {array.dtype}: wanted numbers")
    return array.shape[0], array.shape[1]


def check_values(owner: object, image: object, way_out: str = "put ToUint8() or ToFloat32() before it") -> None:
    """Check an image whose values are computed with.

    Args:
        owner: who got it, for the message.
        image: the image.
        way_out: what to do with others.

    Raises:
        DataPointError: It is not an array of shape (H, W) or (H, W, C) of uint8, float32 or float64, or it is empty.
    """
    array = _check_array(owner, image)
    if array.dtype not in _VALUE_DTYPES:
        raise DataPointError(
            f"{type(owner).__name__} got an image of dtype {array.dtype}: wanted uint8, float32 or float64; {way_out}"
        )


def check_numeric_image(owner: object, image: object) -> None:
    """Check what is to become an image of another dtype.

    Raises:
        DataPointError: It is not an array of numbers of shape (H, W) or (H, W, C), or it is empty.
    """
    dtype = _check_array(owner, image).dtype
    if dtype.kind not in "biuf":
        raise DataPointError(f"{type(owner).__name__} got an image of dtype {dtype}: wanted real numbers")


def check_image_size(owner: object, image: np.ndarray, height: int, width: int) -> None:
    """Check that an image has the size that a transform was made for.

    Raises:
        DataPointError: It is not an image, or has another size.
    """
    found = check_image(owner, image)
    if found != (height, width):
        raise DataPointError(
            f"{owner!r} got an image of shape {image.shape}: wanted one of height {height} and width {width}"
        )


def check_color(owner: object, image: np.ndarray) -> None:
    """Check that an image has three channels.

    Raises:
        DataPointError: It is not an image, or has another number of channels.
    """
    check_values(owner, image)
    if image.ndim != 3 or image.shape[2] != 3:
        raise DataPointError(
            f"{type(owner).__name__} got an image of shape {image.shape}: wanted three channels of colour"
        )


def check_points(owner: object, points: ArrayLike, columns: int) -> np.ndarray:
    """Return coordinates or boxes as a new array of floats.

    Args:
        owner: who got them, for the message.
        points: the array.
        columns: 2 for coordinates, 4 for boxes.

    Raises:
        DataPointError: It has another shape, or holds no real numbers.
    """
    array = np.array(points)
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "iuf":
        what = "coordinates (x, y)" if columns == 2 else "boxes (x1, y1, x2, y2)"
        raise DataPointError(
            f"{type(owner).__name__} got an array of shape {array.shape} and dtype {array.dtype}: "
            f"wanted {what}, real numbers of shape (N, {columns})"
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_range(
    owner: object, name: str, value: Sequence[Any] | np.ndarray, low: float = -np.inf, high: float = np.inf
) -> tuple[Any, Any]:
    """Return a range given as an argument, a pair in ascending order between two limits.

    Raises:
        ConfigError: It is something else.
    """
    is_pair = isinstance(value, (Sequence, np.ndarray)) and len(value) == 2 and all(map(is_number, value))
    if not is_pair or not low <= value[0] <= value[1] <= high:
        limits = "" if (low, high) == (-np.inf, np.inf) else f" between {low:g} and {high:g}"
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted (low, high){limits}")
    return value[0], value[1]


def check_number(owner: object, name: str, value: Number, low: float = -np.inf, high: float = np.inf) -> Number:
    """Return a number given as an argument.

    Raises:
        ConfigError: It is not a number, or not between the limits.
    """
    if not is_number(value) or not low <= value <= high:
        limits = "" if (low, high) == (-np.inf, np.inf) else f" between {low:g} and {high:g}"
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted a number{limits}")
    return value


def check_shape(owner: object, name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Return a height and a width given as two integers, or as one for both.

    Raises:
        ConfigError: They are not positive integers.
    """
    try:
        height, width = shape2d(value)
    except ConfigError as error:
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: {error}") from error
    if height < 1 or width < 1:
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted positive integers")
    return height, width


def is_number(value: object) -> bool:
    """Tell whether a value is a real number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def has_value_dtype(image: np.ndarray) -> bool:
    """Tell whether an image is of a dtype that is computed with, and that every version of OpenCV knows."""
    return image.dtype in _VALUE_DTYPES


def _check_array(owner: object, image: object) -> np.ndarray:
    """Return an array with the dimensions of an image, or refuse what is not one."""
    if not isinstance(image, np.ndarray):
        raise DataPointError(f"{type(owner).__name__} got a {type(image).__name__}: wanted an image, a numpy array")
    if image.ndim not in (2, 3) or image.size == 0:
        raise DataPointError(f"{type(owner).__name__} got an image of shape {image.shape}: wanted (H, W) or (H, W, C)")
    return image
