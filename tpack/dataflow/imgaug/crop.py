"""Rectangles cut out of images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_image, check_number, check_points, check_shape
from tpack.dataflow.imgaug.transform import Transform
from tpack.errors import ConfigError, DataPointError


class CropTransform(Transform):
    """Keep the rectangle of height ``h`` and width ``w`` whose first row is ``y0`` and first column ``x0``.

    The image that comes out shares memory with the one that goes in.
    """

    def __init__(self, y0: int, x0: int, h: int, w: int) -> None:
        """Make the transform; see the class."""
        self.y0 = y0
        self.x0 = x0
        self.h = h
        self.w = w

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the rectangle.

        Raises:
            DataPointError: It is not all inside the image.
        """
        height, width = check_image(self, img)
        if min(self.y0, self.x0) < 0 or self.y0 + self.h > height or self.x0 + self.w > width:
            raise DataPointError(f"{self!r} got an image of shape {img.shape}: wanted one that holds the rectangle")
        return img[self.y0 : self.y0 + self.h, self.x0 : self.x0 + self.w]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Count the coordinates from the corner of the rectangle; those outside of it stay outside."""
        coords = check_points(self, coords, 2)
        coords -= np.array([self.x0, self.y0], dtype=coords.dtype)
        return coords


class CenterCrop(ImageAugmentor):
    """Keep a rectangle in the middle."""

    def __init__(self, crop_shape: int | Sequence[int]) -> None:
        """Make the augmentor.

        Args:
            crop_shape: height and width, or one number for both.
        """
        self.crop_shape = check_shape(self, "crop_shape", crop_shape)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Find the middle."""
        free_height, free_width = _free(self, img, self.crop_shape)
        return CropTransform(free_height // 2, free_width // 2, *self.crop_shape)


class RandomCrop(ImageAugmentor):
    """Keep a rectangle at a random place; every place is as probable, also the last row and column.

    In tensorpack the image's last row and column were never in it.
    """

    def __init__(self, crop_shape: int | Sequence[int]) -> None:
        """Make the augmentor.

        Args:
            crop_shape: height and width, or one number for both.
        """
        self.crop_shape = check_shape(self, "crop_shape", crop_shape)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a place."""
        free_height, free_width = _free(self, img, self.crop_shape)
        return CropTransform(self.rng.randint(free_height + 1), self.rng.randint(free_width + 1), *self.crop_shape)


class RandomCropRandomShape(ImageAugmentor):
    """Keep a rectangle of random height and width at a random place."""

    def __init__(
        self,
        wmin: int,
        hmin: int,
        wmax: int | None = None,
        hmax: int | None = None,
        max_aspect_ratio: float | None = None,
    ) -> None:
        """Make the augmentor.

        Args:
            wmin: the least width.
            hmin: the least height.
            wmax: the greatest width; None is the image's. A narrower image is taken as wide as it is.
            hmax: the greatest height, likewise.
            max_aspect_ratio: how many times as long as the other the longer edge may be; None is any number.

        Raises:
            ConfigError: A least size is more than the greatest, or none has such an aspect ratio.
        """
        self.wmin, self.hmin = check_shape(self, "(wmin, hmin)", (wmin, hmin))
        self.wmax, self.hmax = wmax, hmax
        if (wmax is not None and wmax < wmin) or (hmax is not None and hmax < hmin):
            raise ConfigError(f"{self!r}: wanted wmin <= wmax and hmin <= hmax")
        self.max_aspect_ratio = max_aspect_ratio
        if max_aspect_ratio is not None:
            check_number(self, "max_aspect_ratio", max_aspect_ratio, low=1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a height, a width that goes with it, and a place.

        Raises:
            DataPointError: The image is too small, or of a shape that holds no such rectangle.
        """
        image_height, image_width = check_image(self, img)
        hmax = image_height if self.hmax is None else min(self.hmax, image_height)
        wmax = image_width if self.wmax is None else min(self.wmax, image_width)
        ratio = np.inf if self.max_aspect_ratio is None else self.max_aspect_ratio
        heights = np.arange(self.hmin, hmax + 1)
        narrowest = np.maximum(self.wmin, np.ceil(heights / ratio))
        widest = np.minimum(wmax, np.floor(heights * ratio))
        possible = np.flatnonzero(narrowest <= widest)
        if len(possible) == 0:
            raise DataPointError(f"{self!r} got an image of shape {img.shape}: wanted one that holds such a rectangle")
        chosen = possible[self.rng.randint(len(possible))]
        height = int(heights[chosen])
        width = self.rng.randint(int(narrowest[chosen]), int(widest[chosen]) + 1)
        y0, x0 = self.rng.randint(image_height - height + 1), self.rng.randint(image_width - width + 1)
        return CropTransform(y0, x0, height, width)


def _free(owner: Any, img: np.ndarray, shape: tuple[int, int]) -> tuple[int, int]:
    """Return by how much an image is higher and wider than a rectangle."""
    height, width = check_image(owner, img)
    if height < shape[0] or width < shape[1]:
        raise DataPointError(
            f"{owner!r} got an image of shape {img.shape}: wanted at least height {shape[0]} and width {shape[1]}"
        )
    return height - shape[0], width - shape[1]
