"""Images brought to values of a known range or spread. They come out as float32."""

from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_image, check_number
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor


class MeanVarianceNormalize(PhotometricAugmentor):
    """Subtract the mean and divide by the standard deviation, which is taken for at least ``1 / sqrt(values)``."""

    def __init__(self, all_channel: bool = True) -> None:
        """Make the augmentor.

        Args:
            all_channel: whether the channels have one mean and deviation, and not each its own.
        """
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_image(self, img)
        axis = _axes(img, self.all_channel)
        mean = img.mean(axis=axis, keepdims=True, dtype=np.float64)
        deviation = img.std(axis=axis, keepdims=True, dtype=np.float64)
        count = img.size // mean.size
        return ((img - mean) / np.maximum(deviation, 1 / np.sqrt(count))).astype(np.float32)


class MinMaxNormalize(PhotometricAugmentor):
    """Scale and shift the values so that the least and the greatest are two given numbers.

    Values that are all alike become the first of the two; in tensorpack they became NaN.
    """

    def __init__(self, min: float = 0, max: float = 255, all_channel: bool = True) -> None:
        """Make the augmentor.

        Args:
            min: what the least value becomes.
            max: what the greatest becomes.
            all_channel: whether the channels are scaled alike, and not each for itself.
        """
        self.min = check_number(self, "min", min)
        self.max = check_number(self, "max", max, low=min)
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_image(self, img)
        axis = _axes(img, self.all_channel)
        least = img.min(axis=axis, keepdims=True).astype(np.float64)
        spread = img.max(axis=axis, keepdims=True) - least
        scaled = (img - least) / np.where(spread > 0, spread, 1)
        return (scaled * (self.max - self.min) + self.min).astype(np.float32)


def _axes(img: np.ndarray, all_channel: bool) -> tuple[int, ...]:
    """Return the axes that are taken together."""
    return tuple(range(img.ndim)) if all_channel else (0, 1)
