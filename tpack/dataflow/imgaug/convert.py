"""Images in another dtype or colour space."""

from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_color, check_image, check_numeric_image
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, to_dtype_of
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError, DataPointError

_ONE_BYTE = np.zeros(1, dtype=np.uint8)


class ToUint8(PhotometricAugmentor):
    """Limit the values to 0 and 255, round them to the nearest integer and make them uint8.

    In tensorpack digits were cut off, which makes images darker.
    """

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_numeric_image(self, img)
        return to_dtype_of(img, _ONE_BYTE, clip=True)


class ToFloat32(PhotometricAugmentor):
    """Make the values float32 and leave them what they are."""

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_numeric_image(self, img)
        return img.astype(np.float32)


class ColorSpace(PhotometricAugmentor):
    """Bring the colours into another colour space."""

    def __init__(self, mode: int, keepdims: bool = True) -> None:
        """Make the augmentor.

        Args:
            mode: OpenCV's number of the conversion, such as ``cv2.COLOR_BGR2HSV``.
            keepdims: whether an image of one channel has the shape (H, W, 1), and not (H, W).

        Raises:
            ConfigError: The mode is no integer.
        """
        if isinstance(mode, bool) or not isinstance(mode, (int, np.integer)):
            raise ConfigError(f"{type(self).__name__} got mode={mode!r}: wanted OpenCV's number of a conversion")
        self.mode = mode
        self.keepdims = keepdims

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_image(self, img)
        try:
            converted = convert_color(img, self.mode)
        except opencv().error as error:
            raise DataPointError(
                f"{self!r} got an image of shape {img.shape} and dtype {img.dtype}: OpenCV cannot convert it: {error}"
            ) from error
        return converted[:, :, np.newaxis] if self.keepdims and converted.ndim == 2 else converted


class Grayscale(ColorSpace):
    """Make a colour image grey."""

    def __init__(self, keepdims: bool = True, rgb: bool = False, keepshape: bool = False) -> None:
        """Make the augmentor.

        Args:
            keepdims: whether the shape becomes (H, W, 1), and not (H, W).
            rgb: whether the channels are red, green and blue, and not in OpenCV's order: blue, green and red.
            keepshape: whether the shape stays (H, W, 3), with three channels that are the same.
        """
        super().__init__(opencv().COLOR_RGB2GRAY if rgb else opencv().COLOR_BGR2GRAY, keepdims)
        self.keepshape = keepshape

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_color(self, img)
        if self.keepshape:
            return np.repeat(convert_color(img, self.mode)[:, :, np.newaxis], 3, axis=2)
        return super()._augment(img, param)


def convert_color(img: np.ndarray, mode: int) -> np.ndarray:
    """Return the image in another colour space; OpenCV converts no float64, so that goes by float32."""
    if img.dtype == np.float64:
        return opencv().cvtColor(img.astype(np.float32), mode).astype(np.float64)
    return opencv().cvtColor(img, mode)
