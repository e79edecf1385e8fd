"""Images made larger or smaller.

The numbers of the interpolations are OpenCV's: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform
from tpack.dataflow.imgaug.checks import (
    check_image,
    check_image_size,
    check_points,
    check_range,
    check_shape,
    check_values,
    has_value_dtype,
)
from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_number, shown

_MAX_TRIALS = 50
# The interpolations that only move pixels: nearest, with and without OpenCV's rounding.
_NEAREST = (0, 6)


class ResizeTransform(Transform):
    """Resize an image of ``h`` and ``w`` to ``new_h`` and ``new_w``; with the nearest pixel it may be of any dtype."""

    def __init__(self, h: int, w: int, new_h: int, new_w: int, interp: int) -> None:
        self.h = h
        self.w = w
        self.new_h = new_h
        self.new_w = new_w
        self.interp = interp

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Return the resized image."""
        check_image_size(self, img, self.h, self.w)
        if has_value_dtype(img):
            return apply_per_channels(self._resize, img)
        if self.interp not in _NEAREST:
            check_values(self, img, "use interp=0 for every dtype, or ToFloat32() before it")
        places = np.arange(self.h * self.w, dtype=np.int32).reshape(self.h, self.w)
        return img.reshape(self.h * self.w, *img.shape[2:])[self._resize(places)]

    def _resize(self, part: np.ndarray) -> np.ndarray:
        return opencv().resize(part, (self.new_w, self.new_h), interpolation=self.interp)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Scale the coordinates."""
        coords = check_points(self, coords, 2)
        coords *= np.array([self.new_w / self.w, self.new_h / self.h], dtype=coords.dtype)
        return coords


@check_arguments
class Resize(ImageAugmentor):
    """Resize to a fixed height and width, or one number for both."""

    def __init__(self, shape: int | Sequence[int], interp: int = 1) -> None:
        self.shape = check_shape(self, "shape", shape)
        self.interp = check_count(self, "interp", interp, 0, 6)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Resize the whole image."""
        return ResizeTransform(*check_image(self, img), *self.shape, self.interp)


@check_arguments
class ResizeShortestEdge(ImageAugmentor):
    """Resize the shorter edge to ``size`` pixels, and the other in proportion."""

    def __init__(self, size: int, interp: int = 1) -> None:
        self.size = check_shape(self, "size", check_count(self, "size", size))[0]
        self.interp = check_count(self, "interp", interp, 0, 6)

    def get_transform(self, img: np.ndarray) -> Transform:
        """Resize the whole image."""
        height, width = check_image(self, img)
        scale = self.size / min(height, width)
        new_height = self.size if height <= width else int(height * scale + 0.5)
        new_width = self.size if width <= height else int(width * scale + 0.5)
        return ResizeTransform(height, width, new_height, new_width, self.interp)


@check_arguments
class RandomResize(ImageAugmentor):
    """Resize to a random size, with a limited change of the aspect ratio.

    If 50 sizes in a row change it too much, the image keeps its size, with a warning in the log.

    Args:
        xrange: the least and the greatest width; two floats are factors of the image's, two integers numbers of pixels.
        yrange: the same for the height; None is the same as ``xrange``.
        minimum: the least width and height in pixels.
        aspect_ratio_thres: the greatest relative change of the aspect ratio; with 0 the height follows from the width,
            and ``yrange`` is not used.
        interp: OpenCV's number of the interpolation.

    Raises:
        ConfigError: One range is of factors and the other of pixels.
    """

    def __init__(
        self,
        xrange: Sequence[float],
        yrange: Sequence[float] | None = None,
        minimum: Sequence[int] = (0, 0),
        aspect_ratio_thres: float = 0.15,
        interp: int = 1,
    ) -> None:
        self.xrange = check_range(self, "xrange", xrange, low=0)
        self.yrange = self.xrange if yrange is None else check_range(self, "yrange", yrange, low=0)
        if len(minimum) != 2:
            raise ConfigError(f"RandomResize got minimum={shown(minimum)}: expected a width and a height")
        self.minimum = tuple(check_count(self, "minimum", least, 0) for least in minimum)
        self.aspect_ratio_thres = check_number(self, "aspect_ratio_thres", aspect_ratio_thres, low=0)
        self.interp = check_count(self, "interp", interp, 0, 6)
        if aspect_ratio_thres == 0 and yrange is not None:
            logger.info("RandomResize with aspect_ratio_thres=0 keeps the aspect ratio: yrange is not used")
        if _are_factors(self.xrange) != _are_factors(self.yrange):
            given = f"xrange={shown(xrange)} and yrange={shown(yrange)}"
            raise ConfigError(f"RandomResize got {given}: expected floats in both, or integers in both")

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a size."""
        height, width = check_image(self, img)
        for _ in range(_MAX_TRIALS):
            new_width, new_height = self._draw_size(height, width)
            change = abs(new_width / new_height * height / width - 1)
            if self.aspect_ratio_thres == 0 or change <= self.aspect_ratio_thres:
                return ResizeTransform(height, width, new_height, new_width, self.interp)
        logger.warning("%r found no size for an image of %d x %d in %d trials", self, height, width, _MAX_TRIALS)
        return ResizeTransform(height, width, height, width, self.interp)

    def _draw_size(self, height: int, width: int) -> tuple[int, int]:
        """Return a random width and height."""
        unit = (width, height) if _are_factors(self.xrange) else (1, 1)
        new_width = self._rand_range(*self.xrange) * unit[0]
        if self.aspect_ratio_thres == 0:
            new_height = new_width * height / width
        else:
            new_height = self._rand_range(*self.yrange) * unit[1]
        return max(int(new_width + 0.5), self.minimum[0], 1), max(int(new_height + 0.5), self.minimum[1], 1)


def _are_factors(limits: tuple[Any, Any]) -> bool:
    """Tell whether a range is one of factors, and not of pixels."""
    return any(isinstance(limit, (float, np.floating)) for limit in limits)
