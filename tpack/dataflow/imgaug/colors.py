"""Images made brighter or darker, or with more or less contrast."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_color, check_image, check_number, check_range
from tpack.dataflow.imgaug.convert import convert_color
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, map_values
from tpack.dataflow.opencv import opencv


class Brightness(PhotometricAugmentor):
    """Add a random number to all values."""

    def __init__(self, delta: float, clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            delta: the number is between ``-delta`` and ``delta``.
            clip: whether floats are limited to 0 and 255; uint8 always is.
        """
        self.delta = check_number(self, "delta", delta, low=0)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(-self.delta, self.delta)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: values + param, self.clip)


class BrightnessScale(PhotometricAugmentor):
    """Multiply all values by a random number."""

    def __init__(self, range: Sequence[float], clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            range: the least and the greatest factor.
            clip: whether floats are limited to 0 and 255; uint8 always is.
        """
        self.range = check_range(self, "range", range, low=0)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: values * param, self.clip)


class Contrast(PhotometricAugmentor):
    """Multiply the distance of all values from their mean by a random number."""

    def __init__(self, factor_range: Sequence[float], rgb: bool | None = None, clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            factor_range: the least and the greatest factor.
            rgb: None takes the mean of each channel for itself. Otherwise the three channels have one mean, that of the
                image made grey: True if they are red, green and blue, False if blue, green and red. A grey image has
                one mean in any case.
            clip: whether floats are limited to 0 and 255; uint8 always is.
        """
        self.factor_range = check_range(self, "factor_range", factor_range, low=0)
        self.rgb = rgb
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.factor_range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        mean = self._mean(img)
        return map_values(self, img, lambda values: (values - mean) * param + mean, self.clip)

    def _mean(self, img: np.ndarray) -> Any:
        """Return one mean, or one for each channel."""
        check_image(self, img)
        if self.rgb is None or img.ndim == 2 or img.shape[2] == 1:
            return img.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)
        check_color(self, img)
        mode = opencv().COLOR_RGB2GRAY if self.rgb else opencv().COLOR_BGR2GRAY
        return np.float32(convert_color(img.astype(np.float32), mode).mean(dtype=np.float64))
