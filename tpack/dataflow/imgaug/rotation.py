"""Images rotated around a point."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_image, check_number, check_range
from tpack.dataflow.imgaug.geometry import WarpAffineTransform
from tpack.dataflow.imgaug.transform import Transform
from tpack.errors import ConfigError

# What a length computed from sines may lack of a whole number.
_EPSILON = 1e-6


class Rotation(ImageAugmentor):
    """Rotate by a random angle around a random point; the image keeps its size."""

    def __init__(
        self,
        max_deg: float,
        center_range: Sequence[float] = (0, 1),
        interp: int = 1,
        border: int = 1,
        step_deg: float | None = None,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        """Make the augmentor.

        Args:
            max_deg: the greatest angle to either side, in degrees.
            center_range: between which fractions of height and width the point is.
            interp: OpenCV's number of the interpolation.
            border: OpenCV's number of what comes in from outside.
            step_deg: if given, the angle is a multiple of it. All multiples up to ``max_deg`` to either side are as
                probable; in tensorpack ``max_deg`` itself was never drawn.
            border_value: the value from outside with border 0.
        """
        self.max_deg = check_number(self, "max_deg", max_deg, low=0)
        self.center_range = check_range(self, "center_range", center_range)
        self.step_deg = _check_step(self, step_deg)
        self.interp = interp
        self.border = border
        self.border_value = border_value

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the angle and the point."""
        height, width = check_image(self, img)
        center = self._rand_range(*self.center_range, size=2) * (width, height)
        mat = _rotation_matrix(_draw_degrees(self), center, center)
        return WarpAffineTransform(mat, (width, height), self.interp, self.border, self.border_value)


class RotationAndCropValid(ImageAugmentor):
    """Rotate around the middle by a random angle, and keep the largest upright rectangle that is image everywhere.

    One of its edges may be longer than the image's: a quarter turn keeps all of it.
    """

    def __init__(self, max_deg: float, interp: int = 1, step_deg: float | None = None) -> None:
        """Make the augmentor.

        Args:
            max_deg: the greatest angle to either side, in degrees.
            interp: OpenCV's number of the interpolation.
            step_deg: see `Rotation`.
        """
        self.max_deg = check_number(self, "max_deg", max_deg, low=0)
        self.step_deg = _check_step(self, step_deg)
        self.interp = interp

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
        """Return the width and height of the largest upright rectangle inside a rotated one.

        They are rounded down, so that no pixel of it is outside.

        Args:
            w: the width of the rectangle that is rotated.
            h: its height.
            angle: the angle in degrees.
        """
        sin, cos = abs(math.sin(math.radians(angle))), abs(math.cos(math.radians(angle)))
        long, short = max(w, h), min(w, h)
        if short <= 2 * sin * cos * long or abs(sin - cos) < 1e-10:
            # Two corners lie on the middle of the longer edges, and the other two inside.
            found_long, found_short = (short / 2 / sin, short / 2 / cos) if sin > 0 else (long, short)
            width, height = (found_long, found_short) if w >= h else (found_short, found_long)
        else:
            double_cos = cos * cos - sin * sin
            width, height = (w * cos - h * sin) / double_cos, (h * cos - w * sin) / double_cos
        return math.floor(width + _EPSILON), math.floor(height + _EPSILON)


def _rotation_matrix(degrees: float, center: np.ndarray, new_center: np.ndarray) -> np.ndarray:
    """Return the matrix that rotates counterclockwise around a point, which comes to another, on indices of pixels."""
    radians = math.radians(degrees)
    turn = np.array([[math.cos(radians), math.sin(radians)], [-math.sin(radians), math.cos(radians)]])
    return np.column_stack([turn, new_center - 0.5 - turn @ (center - 0.5)])


def _check_step(owner: Any, step_deg: float | None) -> float | None:
    """Return the step of the angle, if there is one."""
    if step_deg is None:
        return None
    if not check_number(owner, "step_deg", step_deg, 0, max(owner.max_deg, 0)) > 0:
        raise ConfigError(f"{type(owner).__name__} got step_deg={step_deg!r}: wanted a positive number")
    return step_deg


def _draw_degrees(augmentor: Any) -> float:
    """Return a random angle."""
    if augmentor.step_deg is None:
        return float(augmentor.rng.uniform(-augmentor.max_deg, augmentor.max_deg))
    steps = int(augmentor.max_deg / augmentor.step_deg + _EPSILON)
    return float(augmentor.rng.randint(-steps, steps + 1) * augmentor.step_deg)
