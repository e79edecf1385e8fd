"""Rectangles cut out of images, as they are or resized to a fixed shape, and rectangles painted over."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform, TransformList
from tpack.dataflow.imgaug.checks import check_image, check_points, check_range, check_shape
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, fill_values
from tpack.dataflow.imgaug.resize import ResizeTransform
from tpack.errors import ConfigError, DataPointError
from tpack.utils.validation import check_arguments, check_count, check_number, shown

_MAX_TRIALS = 10


class CropTransform(Transform):
    """Keep the rectangle of height ``h`` and width ``w`` from row ``y0`` and column ``x0`` on, as a view."""

    def __init__(self, y0: int, x0: int, h: int, w: int) -> None:
        self.y0 = y0
        self.x0 = x0
        self.h = h
        self.w = w

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the rectangle; raise a DataPointError unless it is inside the image."""
        height, width = check_image(self, img)
        if min(self.y0, self.x0) < 0 or self.y0 + self.h > height or self.x0 + self.w > width:
            raise DataPointError(f"{self!r} got an image of shape {img.shape}: expected one that holds the rectangle")
        return img[self.y0 : self.y0 + self.h, self.x0 : self.x0 + self.w]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Count the coordinates from the corner of the rectangle; points outside stay outside."""
        coords = check_points(self, coords, 2)
        coords -= np.array([self.x0, self.y0], dtype=coords.dtype)
        return coords


@check_arguments
class CenterCrop(ImageAugmentor):
    """Keep a rectangle in the middle, of a height and width, or one number for both."""

    def __init__(self, crop_shape: int | Sequence[int]) -> None:
        self.crop_shape = check_shape(self, "crop_shape", crop_shape)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Find the middle."""
        free_height, free_width = _free(self, img, self.crop_shape)
        return CropTransform(free_height // 2, free_width // 2, *self.crop_shape)


@check_arguments
class RandomCrop(ImageAugmentor):
    """Keep a rectangle at a random place, of a height and width, or one number for both.

    Each place has the same probability; in tensorpack the image's last row and column were never in it.
    """

    def __init__(self, crop_shape: int | Sequence[int]) -> None:
        self.crop_shape = check_shape(self, "crop_shape", crop_shape)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a place."""
        free_height, free_width = _free(self, img, self.crop_shape)
        return CropTransform(self.rng.randint(free_height + 1), self.rng.randint(free_width + 1), *self.crop_shape)


@check_arguments
class RandomCropRandomShape(ImageAugmentor):
    """Keep a rectangle of random height and width at a random place.

    Args:
        wmin: the least width; ``hmin`` is the least height.
        wmax: the greatest width; None is the image's, as it is for narrower images. ``hmax`` is the greatest height,
            likewise.
        max_aspect_ratio: the greatest ratio of the longer edge to the other; None is any number.

    Raises:
        ConfigError: A least size is more than the greatest, or no size has such an aspect ratio.
    """

    def __init__(
        self,
        wmin: int,
        hmin: int,
        wmax: int | None = None,
        hmax: int | None = None,
        max_aspect_ratio: float | None = None,
    ) -> None:
        self.wmin, self.hmin = check_count(self, "wmin", wmin), check_count(self, "hmin", hmin)
        self.wmax, self.hmax = wmax, hmax
        for name, value in (("wmax", wmax), ("hmax", hmax)):
            if value is not None:
                check_count(self, name, value)
        if (wmax is not None and wmax < wmin) or (hmax is not None and hmax < hmin):
            raise ConfigError(f"{self!r}: expected wmin <= wmax and hmin <= hmax")
        self.max_aspect_ratio = max_aspect_ratio
        if max_aspect_ratio is not None:
            check_number(self, "max_aspect_ratio", max_aspect_ratio, low=1)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a height, a matching width, and a place; raise DataPointError if the image holds no such rectangle."""
        image_height, image_width = check_image(self, img)
        hmax = image_height if self.hmax is None else min(self.hmax, image_height)
        wmax = image_width if self.wmax is None else min(self.wmax, image_width)
        ratio = np.inf if self.max_aspect_ratio is None else self.max_aspect_ratio
        heights = np.arange(self.hmin, hmax + 1)
        narrowest = np.maximum(self.wmin, np.ceil(heights / ratio))
        widest = np.minimum(wmax, np.floor(heights * ratio))
        possible = np.flatnonzero(narrowest <= widest)
        if len(possible) == 0:
            raise DataPointError(f"{self!r} got an image of shape {img.shape}: expected one that holds a rectangle")
        chosen = possible[self.rng.randint(len(possible))]
        height = int(heights[chosen])
        width = self.rng.randint(int(narrowest[chosen]), int(widest[chosen]) + 1)
        y0, x0 = self.rng.randint(image_height - height + 1), self.rng.randint(image_width - width + 1)
        return CropTransform(y0, x0, height, width)


@check_arguments
class GoogleNetRandomCropAndResize(ImageAugmentor):
    """Keep a rectangle of random area, aspect ratio and place, and resize it.

    A rectangle that does not fit into the image is drawn again. After ten of them, the largest rectangle in the middle
    with the aspect ratio of the target is kept.

    Args:
        crop_area_fraction: the least and the greatest part of the image's area.
        aspect_ratio_range: the least and the greatest ratio of width to height; its inverse has the same probability.

    Source:
        Szegedy et al., "Going deeper with convolutions", 2015
    """

    def __init__(
        self,
        crop_area_fraction: Sequence[float] = (0.08, 1.0),
        aspect_ratio_range: Sequence[float] = (0.75, 1.333),
        target_shape: int | Sequence[int] = 224,
        interp: int = 1,
    ) -> None:
        tiny = float(np.finfo(np.float64).tiny)
        self.crop_area_fraction = check_range(self, "crop_area_fraction", crop_area_fraction, tiny, 1)
        self.aspect_ratio_range = check_range(self, "aspect_ratio_range", aspect_ratio_range, tiny)
        self.target_shape = check_shape(self, "target_shape", target_shape)
        self.interp = check_count(self, "interp", interp, 0, 6)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a rectangle."""
        height, width = check_image(self, img)
        for _ in range(_MAX_TRIALS):
            crop_height, crop_width = self._draw_shape(height * width)
            if 1 <= crop_height <= height and 1 <= crop_width <= width:
                y0 = self.rng.randint(height - crop_height + 1)
                x0 = self.rng.randint(width - crop_width + 1)
                break
        else:
            # The largest rectangle in the middle with the aspect ratio of the target.
            scale = min(height / self.target_shape[0], width / self.target_shape[1])
            crop_height, crop_width = (max(1, int(edge * scale + 1e-6)) for edge in self.target_shape)
            y0, x0 = (height - crop_height) // 2, (width - crop_width) // 2
        resize = ResizeTransform(crop_height, crop_width, *self.target_shape, self.interp)
        return TransformList([CropTransform(y0, x0, crop_height, crop_width), resize])

    def _draw_shape(self, area: int) -> tuple[int, int]:
        """Return a random height and width."""
        crop_area = self.rng.uniform(*self.crop_area_fraction) * area
        aspect_ratio = self.rng.uniform(*self.aspect_ratio_range)
        crop_height = int(math.sqrt(crop_area / aspect_ratio) + 0.5)
        crop_width = int(math.sqrt(crop_area * aspect_ratio) + 0.5)
        return (crop_width, crop_height) if self.rng.rand() < 0.5 else (crop_height, crop_width)


@check_arguments
class RandomCutout(PhotometricAugmentor):
    """Fill a rectangle at a random place, all of it inside the image, with one value.

    Args:
        h_range: the height of the rectangle; or a pair, the least height and one more than the greatest.
        w_range: the width, likewise.
        fill: the value, or one for each channel.

    Source:
        DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", arXiv 1708.04552
    """

    def __init__(
        self, h_range: int | Sequence[int], w_range: int | Sequence[int], fill: float | Sequence[float] = 0.0
    ) -> None:
        self.h_range = _check_edge(self, "h_range", h_range)
        self.w_range = _check_edge(self, "w_range", w_range)
        self.fill = fill

    def _get_augment_params(self, img: np.ndarray) -> tuple[int, int, int, int]:
        """Return the first row, the first column, the height and the width."""
        image_height, image_width = check_image(self, img)
        height, width = self.rng.randint(*self.h_range), self.rng.randint(*self.w_range)
        if height > image_height or width > image_width:
            raise DataPointError(f"{self!r} got an image of shape {img.shape}: expected at least {height} x {width}")
        y0, x0 = self.rng.randint(image_height - height + 1), self.rng.randint(image_width - width + 1)
        return y0, x0, height, width

    def _augment(self, img: np.ndarray, param: tuple[int, int, int, int]) -> np.ndarray:
        y0, x0, height, width = param
        filled = img.copy()
        filled[y0 : y0 + height, x0 : x0 + width] = fill_values(self, self.fill, img)
        return filled


def _free(owner: object, img: np.ndarray, shape: tuple[int, int]) -> tuple[int, int]:
    """Return the differences in height and width between an image and a rectangle."""
    height, width = check_image(owner, img)
    if height < shape[0] or width < shape[1]:
        raise DataPointError(f"{owner!r} got an image of shape {img.shape}: expected at least {shape[0]} x {shape[1]}")
    return height - shape[0], width - shape[1]


def _check_edge(owner: object, name: str, value: Any) -> tuple[int, int]:
    """Return the least length of an edge, and one more than the greatest."""
    if not isinstance(value, (tuple, list, np.ndarray)):
        return (length := check_count(owner, name, value)), length + 1
    low, high = (check_count(owner, name, edge) for edge in check_range(owner, name, value))
    if low == high:
        raise ConfigError(f"{type(owner).__name__} got {name}={shown(value)}: expected a larger second number")
    return low, high
