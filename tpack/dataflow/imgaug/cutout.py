"""A rectangle of the image painted over."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_image, check_range, is_number
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, to_dtype_of
from tpack.errors import ConfigError, DataPointError


class RandomCutout(PhotometricAugmentor):
    """Fill a rectangle at a random place, all of it inside the image, with one value.

    Source:
        DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", arXiv 1708.04552
    """

    def __init__(
        self, h_range: int | Sequence[int], w_range: int | Sequence[int], fill: float | Sequence[float] = 0.0
    ) -> None:
        """Make the augmentor.

        Args:
            h_range: the height of the rectangle; or a pair, between the first of which and one less than the second the
                height is drawn.
            w_range: the width, likewise.
            fill: the value, or one for each channel.
        """
        self.h_range = _check_edge(self, "h_range", h_range)
        self.w_range = _check_edge(self, "w_range", w_range)
        self.fill = fill

    def _get_augment_params(self, img: np.ndarray) -> tuple[int, int, int, int]:
        """Return the first row, the first column, the height and the width.

        Raises:
            DataPointError: The image is smaller than the rectangle.
        """
        image_height, image_width = check_image(self, img)
        height, width = self.rng.randint(*self.h_range), self.rng.randint(*self.w_range)
        if height > image_height or width > image_width:
            raise DataPointError(
                f"{self!r} got an image of shape {img.shape}: it drew {height} x {width}, which is more"
            )
        y0, x0 = self.rng.randint(image_height - height + 1), self.rng.randint(image_width - width + 1)
        return y0, x0, height, width

    def _augment(self, img: np.ndarray, param: tuple[int, int, int, int]) -> np.ndarray:
        y0, x0, height, width = param
        filled = img.copy()
        filled[y0 : y0 + height, x0 : x0 + width] = to_dtype_of(np.asarray(self.fill, np.float64), img, clip=False)
        return filled


def _check_edge(owner: Any, name: str, value: Any) -> tuple[int, int]:
    """Return the least length of an edge, and one more than the greatest."""
    low, high = (value, value + 1) if is_number(value) else check_range(owner, name, value)
    if not all(isinstance(limit, (int, np.integer)) for limit in (low, high)) or not 1 <= low < high:
        raise ConfigError(
            f"{type(owner).__name__} got {name}={value!r}: wanted a positive integer, or two, the second more"
        )
    return int(low), int(high)
