"""Images shifted, scaled, sheared and rotated: one matrix for image and coordinates.

The numbers of borders are OpenCV's: 0 one value, 1 the nearest pixel again, 2 mirrored with the edge, 3 the other side,
4 mirrored without it.
"""

import math
from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_image, check_number, check_points, check_range
from tpack.dataflow.imgaug.transform import Transform
from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import ConfigError


class WarpAffineTransform(Transform):
    """Move every point by a matrix.

    In tensorpack a border value given as one number was that of the first channel, and the others were black; the
    coordinates were half a pixel off where the matrix did more than shift.
    """

    def __init__(
        self,
        mat: np.ndarray,
        dsize: tuple[int, int],
        interp: int = 1,
        borderMode: int = 0,
        borderValue: float | Sequence[float] = 0,
    ) -> None:
        """Make the transform.

        Args:
            mat: of shape (2, 3): the pixel with indices (x, y) goes to ``mat @ (x, y, 1)``.
            dsize: the width and height of the image that comes out.
            interp: OpenCV's number of the interpolation.
            borderMode: OpenCV's number of what is outside of the image.
            borderValue: the value there with border 0, or one for each channel.

        Raises:
            ConfigError: The matrix has another shape.
        """
        self.mat = np.asarray(mat, dtype=np.float64)
        if self.mat.shape != (2, 3):
            raise ConfigError(f"WarpAffineTransform got a matrix of shape {self.mat.shape}: wanted (2, 3)")
        self.dsize = dsize
        self.interp = interp
        self.border_mode = borderMode
        self.border_value = borderValue

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image warped."""
        check_image(self, img)
        is_one = np.ndim(self.border_value) == 0
        value = (self.border_value,) * 4 if is_one else tuple(self.border_value)  # type: ignore[arg-type]
        options = {"flags": self.interp, "borderMode": self.border_mode, "borderValue": value}
        warp = opencv().warpAffine
        return apply_per_channels(lambda part: warp(part, self.mat, self.dsize, **options), img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Move the coordinates; the matrix is for indices of pixels, which are 0.5 less."""
        coords = check_points(self, coords, 2)
        moved = (coords - 0.5) @ self.mat[:, :2].T + (self.mat[:, 2] + 0.5)
        return moved.astype(coords.dtype, copy=False)


class Shift(ImageAugmentor):
    """Shift by a random whole number of pixels."""

    def __init__(
        self,
        horiz_frac: float = 0,
        vert_frac: float = 0,
        border: int = 1,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        """Make the augmentor.

        Args:
            horiz_frac: the greatest shift to the left or right, as a fraction of the width.
            vert_frac: the greatest shift up or down, as a fraction of the height.
            border: OpenCV's number of what comes in from outside.
            border_value: the value of that with border 0.
        """
        self.horiz_frac = check_number(self, "horiz_frac", horiz_frac, 0, 1)
        self.vert_frac = check_number(self, "vert_frac", vert_frac, 0, 1)
        self.border = border
        self.border_value = border_value

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw the shift."""
        height, width = check_image(self, img)
        x = round(self._rand_range(-self.horiz_frac, self.horiz_frac) * width)
        y = round(self._rand_range(-self.vert_frac, self.vert_frac) * height)
        mat = np.array([[1, 0, x], [0, 1, y]])
        return WarpAffineTransform(mat, (width, height), 1, self.border, self.border_value)


class Affine(ImageAugmentor):
    """Shear, rotate and scale around the middle, then shift, each by a random amount."""

    def __init__(
        self,
        scale: Sequence[float] | None = None,
        translate_frac: Sequence[float] | None = None,
        rotate_max_deg: float = 0.0,
        shear: float = 0.0,
        interp: int = 1,
        border: int = 1,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        """Make the augmentor.

        Args:
            scale: the least and the greatest factor; None is 1.
            translate_frac: the greatest shift to either side as a fraction of the width, and up or down of the height;
                None is no shift.
            rotate_max_deg: the greatest angle to either side, in degrees.
            shear: the greatest angle by which the columns are slanted to either side, in degrees, less than 90.
            interp: OpenCV's number of the interpolation.
            border: OpenCV's number of what comes in from outside.
            border_value: the value of that with border 0.
        """
        self.scale = None if scale is None else check_range(self, "scale", scale, low=1e-6)
        fractions = (0, 0) if translate_frac is None else tuple(translate_frac)
        self.translate_frac = [check_number(self, "translate_frac", fraction, 0, 1) for fraction in fractions]
        self.rotate_max_deg = check_number(self, "rotate_max_deg", rotate_max_deg, low=0)
        self.shear = check_number(self, "shear", shear, 0, 89)
        self.interp = interp
        self.border = border
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
