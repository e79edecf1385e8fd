"""Images mirrored and transposed."""

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_image, check_image_size, check_number, check_points
from tpack.dataflow.imgaug.transform import NoOpTransform, Transform
from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import ConfigError


class FlipTransform(Transform):
    """Mirror an image of height ``h`` and width ``w``: left and right if ``horiz``, else top and bottom."""

    def __init__(self, h: int, w: int, horiz: bool = True) -> None:
        """Make the transform; see the class."""
        self.h = h
        self.w = w
        self.horiz = horiz

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the image mirrored."""
        check_image_size(self, img, self.h, self.w)
        flip, axis = opencv().flip, 1 if self.horiz else 0
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
        return apply_per_channels(opencv().transpose, img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Exchange x and y."""
        return np.ascontiguousarray(check_points(self, coords, 2)[:, ::-1])


class Flip(ImageAugmentor):
    """Mirror an image, or do not, by chance."""

    def __init__(self, horiz: bool = False, vert: bool = False, prob: float = 0.5) -> None:
        """Make the augmentor.

        Args:
            horiz: whether left and right are exchanged.
            vert: whether top and bottom are.
            prob: how probable it is.

        Raises:
            ConfigError: Not exactly one of ``horiz`` and ``vert`` is set.
        """
        if bool(horiz) == bool(vert):
            raise ConfigError(f"Flip got horiz={horiz} and vert={vert}: wanted one of them; two Flips do both")
        self.horiz = bool(horiz)
        self.prob = check_number(self, "prob", prob, 0, 1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide whether to."""
        height, width = check_image(self, img)
        if self.rng.rand() < self.prob:
            return FlipTransform(height, width, self.horiz)
        return NoOpTransform()


class Transpose(ImageAugmentor):
    """Exchange rows and columns, or do not, by chance."""

    def __init__(self, prob: float = 0.5) -> None:
        """Make the augmentor.

        Args:
            prob: how probable it is.
        """
        self.prob = check_number(self, "prob", prob, 0, 1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide whether to."""
        check_image(self, img)
        return TransposeTransform() if self.rng.rand() < self.prob else NoOpTransform()
