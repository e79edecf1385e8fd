"""Checks of what augmentors are made with and of what they are given."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from tpack.errors import ConfigError, DataPointError
from tpack.utils.argtools import shape2d

_IMAGE_DTYPES = frozenset(map(np.dtype, ("uint8", "float32", "float64")))


def check_image(owner: Any, image: Any) -> tuple[int, int]:
    """Return the height and width of an image.

    Args:
        owner: who got it, for the message.
        image: the image.

    Raises:
        DataPointError: It is no array of shape (H, W) or (H, W, C) of uint8, float32 or float64, or it is empty.
    """
    _check_array(owner, image)
    if image.dtype not in _IMAGE_DTYPES:
        raise DataPointError(
            f"{type(owner).__name__} got an image of dtype {image.dtype}: wanted uint8, float32 or float64; "
            "put ToUint8() or ToFloat32() before it"
        )
    return image.shape[0], image.shape[1]


def check_numeric_image(owner: Any, image: Any) -> None:
    """Check what is to become an image of another dtype.

    Raises:
        DataPointError: It is no array of numbers of shape (H, W) or (H, W, C), or it is empty.
    """
    _check_array(owner, image)
    if image.dtype.kind not in "biuf":
        raise DataPointError(f"{type(owner).__name__} got an image of dtype {image.dtype}: wanted real numbers")


def check_image_size(owner: Any, image: Any, height: int, width: int) -> None:
    """Check that an image has the size that a transform was made for.

    Raises:
        DataPointError: It is no image, or has another size.
    """
    found = check_image(owner, image)
    if found != (height, width):
        raise DataPointError(
            f"{owner!r} got an image of shape {image.shape}: wanted one of height {height} and width {width}"
        )


def check_color(owner: Any, image: Any) -> None:
    """Check that an image has three channels.

    Raises:
        DataPointError: It is no image, or has another number of channels.
    """
    check_image(owner, image)
    if image.ndim != 3 or image.shape[2] != 3:
        raise DataPointError(
            f"{type(owner).__name__} got an image of shape {image.shape}: wanted three channels of colour"
        )


def check_points(owner: Any, points: Any, columns: int) -> np.ndarray:
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


def check_range(owner: Any, name: str, value: Any, low: float = -np.inf, high: float = np.inf) -> tuple[Any, Any]:
    """Return a range given as an argument, a pair in ascending order between two limits.

    Raises:
        ConfigError: It is something else.
    """
    is_pair = isinstance(value, (Sequence, np.ndarray)) and len(value) == 2 and all(map(is_number, value))
    if not is_pair or not low <= value[0] <= value[1] <= high:
        limits = "" if (low, high) == (-np.inf, np.inf) else f" between {low:g} and {high:g}"
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted (low, high){limits}")
    return value[0], value[1]


def check_number(owner: Any, name: str, value: Any, low: float = -np.inf, high: float = np.inf) -> Any:
    """Return a number given as an argument.

    Raises:
        ConfigError: It is none, or is not between the limits.
    """
    if not is_number(value) or not low <= value <= high:
        limits = "" if (low, high) == (-np.inf, np.inf) else f" between {low:g} and {high:g}"
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted a number{limits}")
    return value


def check_shape(owner: Any, name: str, value: Any) -> tuple[int, int]:
    """Return a height and a width given as two integers, or as one for both.

    Raises:
        ConfigError: They are no positive integers.
    """
    try:
        height, width = shape2d(value)
    except ConfigError as error:
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: {error}") from error
    if height < 1 or width < 1:
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted positive integers")
    return height, width


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and no boolean."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _check_array(owner: Any, image: Any) -> None:
    """Refuse what is no array with the dimensions of an image."""
    if not isinstance(image, np.ndarray):
        raise DataPointError(f"{type(owner).__name__} got a {type(image).__name__}: wanted an image, a numpy array")
    if image.ndim not in (2, 3) or image.size == 0:
        raise DataPointError(f"{type(owner).__name__} got an image of shape {image.shape}: wanted (H, W) or (H, W, C)")
