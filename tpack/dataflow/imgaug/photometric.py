"""Base of augmentors that change values and do not move pixels; dtypes and colour spaces."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform, UnsupportedTransformError
from tpack.dataflow.imgaug.checks import check_color, check_numeric_image, check_points, check_values
from tpack.dataflow.opencv import opencv
from tpack.errors import DataPointError
from tpack.utils.validation import check_arguments, check_count, shown

_LEVELS = np.arange(256, dtype=np.float32)
_MAX_TABLE_CHANNELS = 4
_ONE_BYTE = np.zeros(1, dtype=np.uint8)


class PhotometricAugmentor(ImageAugmentor):
    """The base of augmentors that do not change coordinates.

    A subclass has ``_augment(img, param)``, which does not change ``img``, and, if it draws random numbers,
    ``_get_augment_params(img)``, which returns them.
    """

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the random numbers."""
        return PhotometricTransform(self, self._get_augment_params(img))

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        raise UnsupportedTransformError(f"{type(self).__name__} has no _augment(): define it in the subclass")


class PhotometricTransform(Transform):
    """The change of a `PhotometricAugmentor`, after its random numbers, ``params``, were drawn."""

    def __init__(self, augmentor: PhotometricAugmentor, params: object = None) -> None:
        self.augmentor = augmentor
        self.params = params

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Change the values."""
        return self.augmentor._augment(img, self.params)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return the coordinates."""
        return check_points(self, coords, 2)


def to_dtype_of(values: np.ndarray, img: np.ndarray, clip: bool) -> np.ndarray:
    """Return computed values as an image of the dtype of another.

    For uint8 they are always limited to 0 and 255, and rounded to the nearest, where tensorpack cut the digits off and
    made images darker; floats are limited too with ``clip``.
    """
    if img.dtype == np.uint8:
        return np.rint(np.clip(values, 0, 255)).astype(np.uint8)
    return (np.clip(values, 0, 255) if clip else values).astype(img.dtype, copy=False)


def fill_values(owner: object, value: ArrayLike, img: np.ndarray) -> np.ndarray:
    """Return the value of filled pixels, or one for each channel, in the dtype of an image.

    Floats are rounded, and for uint8 integers limited too, as in `to_dtype_of`.

    Raises:
        DataPointError: The dtype of the image cannot hold a value.
    """
    values = np.asarray(value)
    if img.dtype == np.uint8:
        return to_dtype_of(values.astype(np.float64), img, clip=False)
    with np.errstate(invalid="ignore"):
        filled = values.astype(img.dtype)
    if img.dtype.kind in "biu" and not np.array_equal(filled, values):
        name = type(owner).__name__
        raise DataPointError(f"{name} got an image of dtype {img.dtype}: expected one for the value {shown(value)}")
    return filled


def map_values(
    owner: object, img: np.ndarray, function: Callable[[np.ndarray], np.ndarray], clip: bool = True
) -> np.ndarray:
    """Apply a function of floats, with channels in the last dimension, to each value of an image.

    For uint8 it is called for the 256 possible values only; with ``clip`` floats are limited to 0 and 255.
    """
    check_values(owner, img)
    channels = 1 if img.ndim == 2 else img.shape[2]
    pixels = img.reshape(*img.shape[:2], channels)
    if img.dtype != np.uint8 or channels > _MAX_TABLE_CHANNELS:
        values = pixels.astype(np.float32) if img.dtype == np.uint8 else pixels
        return to_dtype_of(function(values), img, clip).reshape(img.shape)
    levels = np.broadcast_to(_LEVELS[:, np.newaxis], (256, channels))
    table = to_dtype_of(function(levels), img, clip).reshape(1, 256, channels)
    return opencv().LUT(img, table).reshape(img.shape)


class ToUint8(PhotometricAugmentor):
    """Limit values to 0 and 255, round them and make them uint8; tensorpack cut digits off."""

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_numeric_image(self, img)
        return to_dtype_of(img, _ONE_BYTE, clip=True)


class ToFloat32(PhotometricAugmentor):
    """Make the values float32, unchanged."""

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_numeric_image(self, img)
        return img.astype(np.float32)


@check_arguments
class ColorSpace(PhotometricAugmentor):
    """Bring the colours into another colour space.

    Args:
        mode: OpenCV's number of the conversion, such as ``cv2.COLOR_BGR2HSV``; others raise a ConfigError.
        keepdims: whether an image of one channel has the shape (H, W, 1), and not (H, W).
    """

    def __init__(self, mode: int, keepdims: bool = True) -> None:
        self.mode = check_count(self, "mode", mode, 0)
        self.keepdims = keepdims

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_values(self, img)
        try:
            converted = convert_color(img, self.mode)
        except opencv().error as error:
            raise DataPointError(
                f"{self!r} got an image of shape {img.shape} and dtype {img.dtype}: OpenCV cannot convert it: {error}"
            ) from error
        return converted[:, :, np.newaxis] if self.keepdims and converted.ndim == 2 else converted


@check_arguments
class Grayscale(ColorSpace):
    """Make a colour image grey.

    Args:
        keepdims: whether the shape becomes (H, W, 1), and not (H, W).
        rgb: whether the channels are red, green and blue, and not in OpenCV's order: blue, green and red.
        keepshape: whether the shape stays (H, W, 3), with three equal channels.
    """

    def __init__(self, keepdims: bool = True, rgb: bool = False, keepshape: bool = False) -> None:
        super().__init__(opencv().COLOR_RGB2GRAY if rgb else opencv().COLOR_BGR2GRAY, keepdims)
        self.keepshape = keepshape

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_color(self, img)
        if self.keepshape:
            return np.repeat(convert_color(img, self.mode)[:, :, np.newaxis], 3, axis=2)
        return super()._augment(img, param)


def convert_color(img: np.ndarray, mode: int) -> np.ndarray:
    """Return the image in another colour space; float64, which OpenCV does not convert, by way of float32."""
    if img.dtype == np.float64:
        return opencv().cvtColor(img.astype(np.float32), mode).astype(np.float64)
    return opencv().cvtColor(img, mode)
