"""The crop that image classifiers are trained with: a random part of the image, resized to a fixed shape."""

import math
from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_image, check_range, check_shape
from tpack.dataflow.imgaug.crop import CropTransform
from tpack.dataflow.imgaug.resize import ResizeTransform
from tpack.dataflow.imgaug.transform import Transform
from tpack.dataflow.imgaug.transform_list import TransformList

_MAX_TRIALS = 10


class GoogleNetRandomCropAndResize(ImageAugmentor):
    """Keep a rectangle of random area, aspect ratio and place, and resize it.

    A rectangle that does not fit into the image is drawn anew. If ten did not fit, the image is resized as little as
    its shape allows, and the middle of it is kept.

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
        """Make the augmentor.

        Args:
            crop_area_fraction: the least and the greatest part of the image's area.
            aspect_ratio_range: the least and the greatest ratio of width to height; its inverse is as probable.
            target_shape: height and width, or one number for both.
            interp: OpenCV's number of the interpolation.
        """
        tiny = np.finfo(np.float64).tiny
        self.crop_area_fraction = check_range(self, "crop_area_fraction", crop_area_fraction, tiny, 1)
        self.aspect_ratio_range = check_range(self, "aspect_ratio_range", aspect_ratio_range, tiny)
        self.target_shape = check_shape(self, "target_shape", target_shape)
        self.interp = interp

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a rectangle."""
        height, width = check_image(self, img)
        for _ in range(_MAX_TRIALS):
            crop_height, crop_width = self._draw_shape(height * width)
            if 1 <= crop_height <= height and 1 <= crop_width <= width:
                y0 = self.rng.randint(height - crop_height + 1)
                x0 = self.rng.randint(width - crop_width + 1)
                return self._crop_and_resize(y0, x0, crop_height, crop_width)
        return self._middle(height, width)

    def _draw_shape(self, area: int) -> tuple[int, int]:
        """Return a random height and width."""
        crop_area = self.rng.uniform(*self.crop_area_fraction) * area
        aspect_ratio = self.rng.uniform(*self.aspect_ratio_range)
        crop_height = int(math.sqrt(crop_area / aspect_ratio) + 0.5)
        crop_width = int(math.sqrt(crop_area * aspect_ratio) + 0.5)
        return (crop_width, crop_height) if self.rng.rand() < 0.5 else (crop_height, crop_width)

    def _middle(self, height: int, width: int) -> Transform:
        """Keep the largest rectangle in the middle that has the aspect ratio of the target."""
        scale = min(height / self.target_shape[0], width / self.target_shape[1])
        crop_height, crop_width = (max(1, int(edge * scale + 1e-6)) for edge in self.target_shape)
        return self._crop_and_resize((height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width)

    def _crop_and_resize(self, y0: int, x0: int, height: int, width: int) -> Transform:
        """Keep a rectangle and resize it."""
        resize = ResizeTransform(height, width, *self.target_shape, self.interp)
        return TransformList([CropTransform(y0, x0, height, width), resize])
