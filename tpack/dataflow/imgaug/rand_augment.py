"""RandAugment: some of fourteen operations on each image, by their number and their common magnitude."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, NoOpTransform, Transform, TransformList
from tpack.dataflow.imgaug.checks import check_color, check_points
from tpack.dataflow.imgaug.geometry import WarpAffineTransform
from tpack.dataflow.imgaug.photometric import convert_color, map_values, to_dtype_of
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_count, check_number

# At the greatest magnitude: degrees; the tangent of the angle; the part of the width or height; the blending factor;
# the number of inverted values; the number of dropped bits.
_DEGREES, _SHEAR, _PART, _BLEND, _VALUES, _BITS = 30.0, 0.3, 150 / 331, 0.9, 256, 4
_GREY = 128
# Pillow's smoothing filter, for sharpening and blurring.
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13


class _Setting(NamedTuple):
    """The strength of an operation, from -1 to 1, and the options of all."""

    strength: float
    interp: int
    fill: float
    is_rgb: bool


@check_arguments
class RandAugment(ImageAugmentor):
    """Use some of fourteen operations with equal probabilities, all of one magnitude.

    They are: nothing, autocontrast, equalize, rotate, solarize, posterize, colour, contrast, brightness, sharpness, and
    shear and translate along each axis. Each grows with the magnitude, from no change to the end of AutoAugment's
    range, in either of its directions. Coordinates and boxes follow. Images have three channels, and values from 0 to
    255.

    Args:
        magnitude: their strength, from 0 to ``max_magnitude``.
        max_magnitude: the greatest magnitude: 10 in the paper, 30 in some code since.
        rgb: whether the channels are red, green and blue, and not in OpenCV's order: blue, green and red.
        interp: OpenCV's number of the interpolation where pixels move; 0 takes the nearest.

    Raises:
        ConfigError: The magnitude is more than the greatest, or a number is too small.

    Example:
        ``AugmentImageComponent(ds, [imgaug.RandAugment(num_ops=2, magnitude=9)])``, before values are normalised.

    Source:
        Cubuk, Zoph, Shlens, Le: RandAugment, 2019, arXiv:1909.13719; ranges of Cubuk et al.: AutoAugment, 2018,
        arXiv:1805.09501, table 6. The code published with them lets the strength of some operations fall with the
        magnitude (solarize, posterize) or rise from the middle (colour, contrast, brightness, sharpness).
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: float = 9,
        *,
        max_magnitude: float = 10,
        rgb: bool = False,
        interp: int = 0,
        fill: float = _GREY,
    ) -> None:
        self.num_ops = check_count(self, "num_ops", num_ops)
        self.max_magnitude = check_number(self, "max_magnitude", max_magnitude, 0, is_low_allowed=False)
        self.magnitude = check_number(self, "magnitude", magnitude, 0)
        if self.magnitude > self.max_magnitude:
            raise ConfigError(f"RandAugment got magnitude={magnitude:g}: expected at most {max_magnitude:g}")
        self.rgb = rgb
        self.interp = check_count(self, "interp", interp, 0)
        self.fill = check_number(self, "fill", fill, 0, 255)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the operations and their directions."""
        check_color(self, img)
        chosen = self.rng.randint(len(OPERATIONS), size=self.num_ops)
        signs = np.where(self.rng.random_sample(self.num_ops) < 0.5, -1.0, 1.0)
        names = list(OPERATIONS)
        strength = self.magnitude / self.max_magnitude
        return TransformList(
            make_operation(names[index], img, _Setting(float(sign) * strength, self.interp, self.fill, self.rgb))
            for index, sign in zip(chosen.tolist(), signs, strict=True)
        )


def make_operation(name: str, img: np.ndarray, setting: _Setting) -> Transform:
    """Return an operation of one strength, for images of the size of ``img``."""
    change = OPERATIONS[name]
    if change is None:
        return NoOpTransform()
    if change in _MOVES:
        height, width = img.shape[:2]
        mat = change(setting.strength, height, width)
        return WarpAffineTransform(mat, (width, height), setting.interp, 0, setting.fill)
    return _ValueTransform(name, setting)


class _ValueTransform(Transform):
    """An operation that changes values and does not move pixels."""

    def __init__(self, name: str, setting: _Setting) -> None:
        self.name = name
        self.setting = setting

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Change the values."""
        check_color(self, img)
        change: Any = OPERATIONS[self.name]
        return change(img, self.setting)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Return the coordinates."""
        return check_points(self, coords, 2)


def _rotation(strength: float, height: int, width: int) -> np.ndarray:
    return opencv().getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), strength * _DEGREES, 1)


def _shear_x(strength: float, height: int, width: int) -> np.ndarray:
    return np.array([[1, strength * _SHEAR, 0], [0, 1, 0]])


def _shear_y(strength: float, height: int, width: int) -> np.ndarray:
    return np.array([[1, 0, 0], [strength * _SHEAR, 1, 0]])


def _translation_x(strength: float, height: int, width: int) -> np.ndarray:
    return np.array([[1, 0, round(strength * _PART * width)], [0, 1, 0]])


def _translation_y(strength: float, height: int, width: int) -> np.ndarray:
    return np.array([[1, 0, 0], [0, 1, round(strength * _PART * height)]])


def _autocontrast(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Stretch the values of each channel to the range from 0 to 255."""
    low, high = img.min(axis=(0, 1)).astype(np.float64), img.max(axis=(0, 1)).astype(np.float64)
    is_flat = low == high
    factor = np.where(is_flat, 1.0, 255.0 / np.where(is_flat, 1.0, high - low))
    return map_values(setting, img, lambda values: (values - np.where(is_flat, 0.0, low)) * factor)


def _equalize(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Equalize the histogram of each channel."""
    pixels = to_dtype_of(img, np.zeros(1, np.uint8), clip=True)
    tables = np.stack([_equalizing(pixels[..., channel]) for channel in range(3)], axis=-1)
    changed = np.stack([tables[pixels[..., channel], channel] for channel in range(3)], axis=-1)
    return changed.astype(img.dtype, copy=False)


def _equalizing(values: np.ndarray) -> np.ndarray:
    """Return the new value for each of 256."""
    counts = np.bincount(values.ravel(), minlength=256)
    used = counts[counts > 0]
    step = int(used.sum() - used[-1]) // 255
    if step == 0:
        return np.arange(256, dtype=np.uint8)
    before = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.clip((before + step // 2) // step, 0, 255).astype(np.uint8)


def _solarize(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Invert the brightest values."""
    threshold = 256 - abs(setting.strength) * _VALUES
    return map_values(setting, img, lambda values: np.where(values >= threshold, 255 - values, values))


def _posterize(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Drop the lowest bits."""
    size = 2.0 ** round(abs(setting.strength) * _BITS)
    return map_values(setting, img, lambda values: np.floor(values / size) * size)


def _color(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Blend with the grey image, or away from it."""
    return _blend(_grey(img, setting)[:, :, np.newaxis], img, setting)


def _contrast(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Blend with the mean of the grey image, or away from it."""
    mean = np.floor(_grey(img, setting).mean(dtype=np.float64) + 0.5)
    factor = 1 + _BLEND * setting.strength
    return map_values(setting, img, lambda values: mean + factor * (values - mean))


def _brightness(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Blend with black, or away from it."""
    factor = 1 + _BLEND * setting.strength
    return map_values(setting, img, lambda values: factor * values)


def _sharpness(img: np.ndarray, setting: _Setting) -> np.ndarray:
    """Blend with the smoothed image, or away from it, but for the border."""
    smooth = img.copy()
    smooth[1:-1, 1:-1] = opencv().filter2D(img, -1, _SMOOTH)[1:-1, 1:-1]
    return _blend(smooth, img, setting)


def _grey(img: np.ndarray, setting: _Setting) -> np.ndarray:
    return convert_color(img, opencv().COLOR_RGB2GRAY if setting.is_rgb else opencv().COLOR_BGR2GRAY)


def _blend(other: np.ndarray, img: np.ndarray, setting: _Setting) -> np.ndarray:
    values = other.astype(np.float32)
    return to_dtype_of(values + np.float32(1 + _BLEND * setting.strength) * (img - values), img, clip=True)


OPERATIONS: dict[str, Callable[..., np.ndarray] | None] = {
    "nothing": None,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "rotate": _rotation,
    "solarize": _solarize,
    "color": _color,
    "posterize": _posterize,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear x": _shear_x,
    "shear y": _shear_y,
    "translate x": _translation_x,
    "translate y": _translation_y,
}
"""The functions of the operations: of the matrix if pixels move, else of the image."""

_MOVES = (_rotation, _shear_x, _shear_y, _translation_x, _translation_y)
