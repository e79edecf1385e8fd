"""Geometric augmentation: shift, scale, shear and rotation by one matrix, mirroring, transposition.

The numbers of borders are OpenCV's: 0 one value, 1 the nearest pixel again, 2 mirrored with the edge, 3 the other side,
4 mirrored without it.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, NoOpTransform, Transform
from tpack.dataflow.imgaug.checks import (
    check_image,
    check_image_size,
    check_points,
    check_range,
    check_values,
    has_value_dtype,
)
from tpack.dataflow.imgaug.photometric import fill_values
from tpack.dataflow.opencv import MAX_CHANNELS, apply_per_channels, opencv
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_choice, check_count, check_number

# One value of a border, or one for each channel.
_Value: TypeAlias = float | Sequence[float]

# The rounding error of a length computed from sines.
_EPSILON = 1e-6
_BORDERS = (0, 1, 2, 3, 4)
# The numbers of interpolations, with two more flags of OpenCV.
_MOST_FLAGS = 31
# The part of OpenCV's flags with the interpolation, and the interpolation that only moves pixels.
_INTERPOLATION, _NEAREST = 7, 0
# Dtypes for which OpenCV finds the same nearest pixel, unless there are two channels.
_MOVED_ALIKE = frozenset(map(np.dtype, ("uint8", "float32")))


class WarpAffineTransform(Transform):
    """Move every point by a matrix.

    In tensorpack a border value given as one number was that of the first channel, and coordinates were half a pixel
    off.

    Args:
        mat: of shape (2, 3): the pixel with indices (x, y) goes to ``mat @ (x, y, 1)``.
        interp: OpenCV's number of the interpolation; with 0 the image may be of any dtype, such as a map of labels.
        borderValue: the value there with border 0, or one for each channel.

    Raises:
        ConfigError: The matrix has another shape.
    """

    def __init__(
        self, mat: np.ndarray, dsize: tuple[int, int], interp: int = 1, borderMode: int = 0, borderValue: _Value = 0
    ) -> None:
        self.mat = np.asarray(mat, dtype=np.float64)
        if self.mat.shape != (2, 3):
            raise ConfigError(f"WarpAffineTransform got a matrix of shape {self.mat.shape}: expected (2, 3)")
        self.dsize = dsize
        self.interp = interp
        self.border_mode = check_choice(self, "borderMode", borderMode, _BORDERS)
        self.border_value = borderValue

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the warped image; of any dtype with the nearest pixel."""
        check_image(self, img)
        is_nearest = self.interp & _INTERPOLATION == _NEAREST
        channels = img.shape[2] if img.ndim == 3 else 1
        if is_nearest and (img.dtype not in _MOVED_ALIKE or channels % MAX_CHANNELS == 2):
            return self._move(img)
        if not is_nearest:
            check_values(self, img, "use interp=0 for every dtype, or ToFloat32() before it")
        values = self._border_values(channels)
        if channels <= MAX_CHANNELS:
            return apply_per_channels(lambda part: self._warp(part, values), img)
        parts = [
            self._warp(np.ascontiguousarray(img[:, :, k : k + MAX_CHANNELS]), values[k : k + MAX_CHANNELS])
            for k in range(0, channels, MAX_CHANNELS)
        ]
        return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)

    def _warp(self, part: np.ndarray, values: Sequence[float]) -> np.ndarray:
        """Warp an image of up to four channels by OpenCV."""
        options = {"flags": self.interp, "borderMode": self.border_mode, "borderValue": tuple(values)}
        return opencv().warpAffine(part, self.mat, self.dsize, **options)

    def _move(self, img: np.ndarray) -> np.ndarray:
        """Warp indices of source pixels, with a border of -1: of some dtypes OpenCV finds other pixels or none."""
        height, width = img.shape[:2]
        rows = np.repeat(np.arange(height, dtype=np.float32)[:, np.newaxis], width, axis=1)
        columns = np.repeat(np.arange(width, dtype=np.float32)[np.newaxis], height, axis=0)
        row, column = (self._warp(places, [-1]).astype(np.int32) for places in (rows, columns))
        moved = np.take(img.reshape(height * width, -1), row * np.int32(width) + column, axis=0, mode="clip")
        is_outside = row < 0
        if is_outside.any():
            moved[is_outside] = fill_values(self, self._border_values(moved.shape[2]), img)
        return moved.reshape(*moved.shape[:2], *img.shape[2:])

    def _border_values(self, channels: int) -> list[Any]:
        """Return a value for each channel; 0 if there are fewer, as in OpenCV."""
        value = np.asarray(self.border_value)
        given = [value.item()] * channels if value.ndim == 0 else value.tolist()
        return [*given, *[0] * channels][:channels]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Move the coordinates; the matrix is for indices of pixels, which are 0.5 less."""
        coords = check_points(self, coords, 2)
        moved = (coords - 0.5) @ self.mat[:, :2].T + (self.mat[:, 2] + 0.5)
        return moved.astype(coords.dtype, copy=False)


@check_arguments
class Shift(ImageAugmentor):
    """Shift by a random whole number of pixels, up to fractions of the width and height.

    Args:
        border: OpenCV's number of the area that comes in from outside.
        border_value: the value there with border 0.
    """

    def __init__(self, horiz_frac: float = 0, vert_frac: float = 0, border: int = 1, border_value: _Value = 0) -> None:
        self.horiz_frac = check_number(self, "horiz_frac", horiz_frac, 0, 1)
        self.vert_frac = check_number(self, "vert_frac", vert_frac, 0, 1)
        self.border = check_choice(self, "border", border, _BORDERS)
        self.border_value = border_value

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the shift."""
        height, width = check_image(self, img)
        x = round(self._rand_range(-self.horiz_frac, self.horiz_frac) * width)
        y = round(self._rand_range(-self.vert_frac, self.vert_frac) * height)
        mat = np.array([[1, 0, x], [0, 1, y]])
        return WarpAffineTransform(mat, (width, height), _NEAREST, self.border, self.border_value)


@check_arguments
class Affine(ImageAugmentor):
    """Shear, rotate and scale around the middle, then shift, each by a random amount.

    Args:
        scale: the least and the greatest factor; None is 1.
        translate_frac: the greatest shift to either side as a fraction of the width, and up or down of the height; None
            is no shift.
        rotate_max_deg: the greatest angle to either side, in degrees.
        shear: the greatest angle of the columns to either side, in degrees, less than 90.
        interp: OpenCV's number of the interpolation.
        border: OpenCV's number of the area that comes in from outside.
        border_value: the value there with border 0.
    """

    def __init__(
        self,
        scale: Sequence[float] | None = None,
        translate_frac: Sequence[float] | None = None,
        rotate_max_deg: float = 0.0,
        shear: float = 0.0,
        interp: int = 1,
        border: int = 1,
        border_value: _Value = 0,
    ) -> None:
        self.scale = None if scale is None else check_range(self, "scale", scale, low=1e-6)
        fractions = (0, 0) if translate_frac is None else tuple(translate_frac)
        self.translate_frac = [check_number(self, "translate_frac", fraction, 0, 1) for fraction in fractions]
        self.rotate_max_deg = check_number(self, "rotate_max_deg", rotate_max_deg, low=0)
        self.shear = check_number(self, "shear", shear, 0, 89)
        self.interp = check_count(self, "interp", interp, 0, _MOST_FLAGS)
        self.border = check_choice(self, "border", border, _BORDERS)
        self.border_value = border_value

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the amounts."""
        height, width = check_image(self, img)
        scale = 1.0 if self.scale is None else self._rand_range(*self.scale)
        angle = math.radians(self._rand_range(-self.rotate_max_deg, self.rotate_max_deg))
        shear = math.tan(math.radians(self._rand_range(-self.shear, self.shear)))
        shift = [
            round(self._rand_range(-fraction, fraction) * edge)
            for fraction, edge in zip(self.translate_frac, (width, height), strict=True)
        ]
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        linear = scale * turn @ np.array([[1.0, shear], [0.0, 1.0]])
        middle = np.array([width, height]) / 2 - 0.5
        mat = np.column_stack([linear, middle + shift - linear @ middle])
        return WarpAffineTransform(mat, (width, height), self.interp, self.border, self.border_value)


@check_arguments
class Rotation(ImageAugmentor):
    """Rotate by a random angle around a random point; the image keeps its size.

    Args:
        max_deg: the greatest angle to either side, in degrees.
        center_range: the range of the point, as fractions of height and width.
        interp: OpenCV's number of the interpolation.
        border: OpenCV's number of the area that comes in from outside.
        step_deg: if given, the angle is a multiple of it, up to ``max_deg`` to either side with equal probabilities; in
            tensorpack ``max_deg`` itself was never drawn.
        border_value: the value from outside with border 0.
    """

    def __init__(
        self,
        max_deg: float,
        center_range: Sequence[float] = (0, 1),
        interp: int = 1,
        border: int = 1,
        step_deg: float | None = None,
        border_value: _Value = 0,
    ) -> None:
        self.max_deg = check_number(self, "max_deg", max_deg, low=0)
        self.center_range = check_range(self, "center_range", center_range)
        self.step_deg = _check_step(self, step_deg)
        self.interp = check_count(self, "interp", interp, 0, _MOST_FLAGS)
        self.border = check_choice(self, "border", border, _BORDERS)
        self.border_value = border_value

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the angle and the point."""
        height, width = check_image(self, img)
        center = self._rand_range(*self.center_range, size=2) * (width, height)
        mat = _rotation_matrix(_draw_degrees(self), center, center)
        return WarpAffineTransform(mat, (width, height), self.interp, self.border, self.border_value)


@check_arguments
class RotationAndCropValid(ImageAugmentor):
    """Rotate around the middle by a random angle, and keep the largest upright rectangle inside the rotated image.

    One of its edges may be longer than the image's: a quarter turn keeps all of it. See `Rotation` for the arguments.
    """

    def __init__(self, max_deg: float, interp: int = 1, step_deg: float | None = None) -> None:
        self.max_deg = check_number(self, "max_deg", max_deg, low=0)
        self.step_deg = _check_step(self, step_deg)
        self.interp = check_count(self, "interp", interp, 0, _MOST_FLAGS)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the angle."""
        height, width = check_image(self, img)
        degrees = _draw_degrees(self)
        new_width, new_height = self.largest_rotated_rect(width, height, degrees)
        size = (max(new_width, 1), max(new_height, 1))
        mat = _rotation_matrix(degrees, np.array([width, height]) / 2, np.array(size) / 2)
        return WarpAffineTransform(mat, size, self.interp, borderMode=1)

    @staticmethod
    def largest_rotated_rect(w: float, h: float, angle: float) -> tuple[int, int]:
        """Return width and height, rounded down, of the largest upright rectangle in one rotated by degrees."""
        sin, cos = abs(math.sin(math.radians(angle))), abs(math.cos(math.radians(angle)))
        long, short = max(w, h), min(w, h)
        if short <= 2 * sin * cos * long or abs(sin - cos) < 1e-10:
            # Two corners are on the middle of the longer edges, and the other two inside.
            found_long, found_short = (short / 2 / sin, short / 2 / cos) if sin > 0 else (long, short)
            width, height = (found_long, found_short) if w >= h else (found_short, found_long)
        else:
            double_cos = cos * cos - sin * sin
            width, height = (w * cos - h * sin) / double_cos, (h * cos - w * sin) / double_cos
        return math.floor(width + _EPSILON), math.floor(height + _EPSILON)


class FlipTransform(Transform):
    """Mirror an image of height ``h`` and width ``w``: left and right if ``horiz``, else top and bottom."""

    def __init__(self, h: int, w: int, horiz: bool = True) -> None:
        self.h = h
        self.w = w
        self.horiz = horiz

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image mirrored."""
        check_image_size(self, img, self.h, self.w)
        flip, axis = opencv().flip, 1 if self.horiz else 0
        if not has_value_dtype(img):
            return np.ascontiguousarray(np.flip(img, axis))
        return apply_per_channels(lambda part: flip(part, axis), img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Mirror the coordinates: x becomes ``w - x``, since they are continuous and not indices of pixels."""
        coords = check_points(self, coords, 2)
        if self.horiz:
            coords[:, 0] = self.w - coords[:, 0]
        else:
            coords[:, 1] = self.h - coords[:, 1]
        return coords


class TransposeTransform(Transform):
    """Exchange rows and columns."""

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image transposed."""
        check_image(self, img)
        if not has_value_dtype(img):
            return np.ascontiguousarray(img.swapaxes(0, 1))
        return apply_per_channels(opencv().transpose, img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Exchange x and y."""
        return np.ascontiguousarray(check_points(self, coords, 2)[:, ::-1])


@check_arguments
class Flip(ImageAugmentor):
    """Mirror an image with some probability.

    Raises:
        ConfigError: Not exactly one of ``horiz``, left and right, and ``vert``, top and bottom, is set.
    """

    def __init__(self, horiz: bool = False, vert: bool = False, prob: float = 0.5) -> None:
        if bool(horiz) == bool(vert):
            raise ConfigError(f"Flip got horiz={horiz} and vert={vert}: expected one of them; use two Flips for both")
        self.horiz = bool(horiz)
        self.prob = check_number(self, "prob", prob, 0, 1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the decision."""
        height, width = check_image(self, img)
        if self.rng.rand() < self.prob:
            return FlipTransform(height, width, self.horiz)
        return NoOpTransform()


@check_arguments
class Transpose(ImageAugmentor):
    """Exchange rows and columns with probability ``prob``."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = check_number(self, "prob", prob, 0, 1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the decision."""
        check_image(self, img)
        return TransposeTransform() if self.rng.rand() < self.prob else NoOpTransform()


def _rotation_matrix(degrees: float, center: np.ndarray, new_center: np.ndarray) -> np.ndarray:
    """Return the matrix for indices of pixels that rotates counterclockwise around a point, which goes to another."""
    radians = math.radians(degrees)
    turn = np.array([[math.cos(radians), math.sin(radians)], [-math.sin(radians), math.cos(radians)]])
    return np.column_stack([turn, new_center - 0.5 - turn @ (center - 0.5)])


def _check_step(owner: Rotation | RotationAndCropValid, step_deg: float | None) -> float | None:
    """Return the step of the angle, if there is one."""
    if step_deg is None:
        return None
    if not check_number(owner, "step_deg", step_deg, 0, max(owner.max_deg, 0)) > 0:
        raise ConfigError(f"{type(owner).__name__} got step_deg={step_deg!r}: expected a positive number")
    return step_deg


def _draw_degrees(augmentor: Rotation | RotationAndCropValid) -> float:
    if augmentor.step_deg is None:
        return float(augmentor.rng.uniform(-augmentor.max_deg, augmentor.max_deg))
    steps = int(augmentor.max_deg / augmentor.step_deg + _EPSILON)
    return float(augmentor.rng.randint(-steps, steps + 1) * augmentor.step_deg)
