"""Images with noise on them.

A transform keeps the seed of its noise and not the noise itself, so that it is small and serves images of any size.
"""

from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.checks import check_image, check_number, check_range
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, to_dtype_of
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError, DataPointError

_SEEDS = 2**31 - 1


class _SeededNoise(PhotometricAugmentor):
    """An augmentor whose parameter is a seed."""

    def _get_augment_params(self, img: np.ndarray) -> int:
        return int(self.rng.randint(_SEEDS))


class GaussianNoise(_SeededNoise):
    """Add a number from a normal distribution to each value."""

    def __init__(self, sigma: float = 1, clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            sigma: the standard deviation.
            clip: whether floats are limited to 0 and 255; uint8 always is.
        """
        self.sigma = check_number(self, "sigma", sigma, low=0)
        self.clip = clip

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_image(self, img)
        noise = np.random.default_rng(param).standard_normal(img.shape, dtype=np.float32)
        return to_dtype_of(img + noise * np.float32(self.sigma), img, self.clip)


class SaltPepperNoise(_SeededNoise):
    """Set some values to 255 and some to 0; each channel of a pixel for itself."""

    def __init__(self, white_prob: float = 0.05, black_prob: float = 0.05) -> None:
        """Make the augmentor.

        Args:
            white_prob: how probable 255 is.
            black_prob: how probable 0 is.

        Raises:
            ConfigError: Together they are more than 1.
        """
        self.white_prob = check_number(self, "white_prob", white_prob, 0, 1)
        self.black_prob = check_number(self, "black_prob", black_prob, 0, 1)
        if white_prob + black_prob > 1:
            raise ConfigError(f"{self!r}: wanted probabilities that are at most 1 together")

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_image(self, img)
        drawn = np.random.default_rng(param).random(img.shape, dtype=np.float32)
        noisy = img.copy()
        noisy[drawn < self.black_prob] = 0
        noisy[drawn >= 1 - self.white_prob] = 255
        return noisy


class JpegNoise(PhotometricAugmentor):
    """Compress as JPEG and decompress again; float values are limited to 0 and 255, and rounded, before.

    An image of one channel stays one; in tensorpack it came back with three.
    """

    def __init__(self, quality_range: Sequence[int] = (40, 100)) -> None:
        """Make the augmentor.

        Args:
            quality_range: the quality is at least the first and less than the second.

        Raises:
            ConfigError: They are no integers, or the range is empty.
        """
        low, high = check_range(self, "quality_range", quality_range, 0, 101)
        if not all(isinstance(limit, (int, np.integer)) for limit in (low, high)) or low == high:
            raise ConfigError(f"JpegNoise got quality_range={quality_range!r}: wanted two integers, the second more")
        self.quality_range = (low, high)

    def _get_augment_params(self, img: np.ndarray) -> int:
        return int(self.rng.randint(*self.quality_range))

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_image(self, img)
        if img.ndim == 3 and img.shape[2] not in (1, 3):
            raise DataPointError(f"JpegNoise got an image of shape {img.shape}: wanted one channel or three")
        cv2 = opencv()
        pixels = to_dtype_of(img, np.empty(0, np.uint8), clip=True)
        _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, param])
        decoded = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED)
        return decoded.reshape(img.shape).astype(img.dtype, copy=False)
