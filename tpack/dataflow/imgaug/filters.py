"""Blur, noise, and normalisation of the range or spread of values."""

from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.checks import check_range, check_values
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, to_dtype_of
from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import ConfigError, DataPointError
from tpack.utils.validation import check_arguments, check_count, check_number, shown

_SEEDS = 2**31 - 1


@check_arguments
class GaussianBlur(PhotometricAugmentor):
    """Blur with a Gaussian window of random size.

    Args:
        size_range: the least size and one more than the greatest; the window has ``2 * size + 1`` pixels.
        sigma_range: the least and the greatest standard deviation; 0 is OpenCV's for the size.
        max_size: if given, ``size_range`` is ``(0, max_size)``.

    Raises:
        ConfigError: The sizes are not integers, or the range is empty.
    """

    def __init__(
        self,
        size_range: Sequence[int] = (0, 3),
        sigma_range: Sequence[float] = (0, 0),
        symmetric: bool = True,
        max_size: int | None = None,
    ) -> None:
        if max_size is not None:
            size_range = (0, check_count(self, "max_size", max_size))
        low, high = check_range(self, "size_range", size_range, low=0)
        if not all(isinstance(limit, (int, np.integer)) for limit in (low, high)) or low == high:
            raise ConfigError(f"GaussianBlur got size_range={shown(size_range)}: expected two ascending integers")
        self.size_range = (low, high)
        self.sigma_range = check_range(self, "sigma_range", sigma_range, low=0)
        self.symmetric = symmetric

    def _get_augment_params(self, img: np.ndarray) -> tuple[tuple[int, int], tuple[float, float]]:
        """Return the size of the window, and the standard deviations, both first along x."""
        sizes = self.rng.randint(*self.size_range, size=2) * 2 + 1
        sigmas = self._rand_range(*self.sigma_range, size=2)
        other = 0 if self.symmetric else 1
        return (int(sizes[0]), int(sizes[other])), (float(sigmas[0]), float(sigmas[other]))

    def _augment(self, img: np.ndarray, param: tuple[tuple[int, int], tuple[float, float]]) -> np.ndarray:
        check_values(self, img)
        (size, (sigma_x, sigma_y)), blur = param, opencv().GaussianBlur
        return apply_per_channels(lambda part: blur(part, size, sigmaX=sigma_x, sigmaY=sigma_y), img)


class _SeededNoise(PhotometricAugmentor):
    """An augmentor whose parameter is a seed."""

    def _get_augment_params(self, img: np.ndarray) -> int:
        return int(self.rng.randint(_SEEDS))


@check_arguments
class GaussianNoise(_SeededNoise):
    """Add a normally distributed number of deviation ``sigma`` to each value; ``clip`` limits floats to 0 and 255."""

    def __init__(self, sigma: float = 1, clip: bool = True) -> None:
        self.sigma = check_number(self, "sigma", sigma, low=0)
        self.clip = clip

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_values(self, img)
        noise = np.random.default_rng(param).standard_normal(img.shape, dtype=np.float32)
        return to_dtype_of(img + noise * np.float32(self.sigma), img, self.clip)


@check_arguments
class SaltPepperNoise(_SeededNoise):
    """Set some values to 255 and some to 0; in each channel of a pixel independently.

    A sum of ``white_prob`` and ``black_prob`` of more than 1 is refused.
    """

    def __init__(self, white_prob: float = 0.05, black_prob: float = 0.05) -> None:
        self.white_prob = check_number(self, "white_prob", white_prob, 0, 1)
        self.black_prob = check_number(self, "black_prob", black_prob, 0, 1)
        if white_prob + black_prob > 1:
            raise ConfigError(f"{self!r}: expected probabilities with a sum of at most 1")

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_values(self, img)
        drawn = np.random.default_rng(param).random(img.shape, dtype=np.float32)
        noisy = img.copy()
        noisy[drawn < self.black_prob] = 0
        noisy[drawn >= 1 - self.white_prob] = 255
        return noisy


@check_arguments
class JpegNoise(PhotometricAugmentor):
    """Compress as JPEG and decompress again; float values are first limited to 0 and 255, and rounded.

    An image of one channel stays one; in tensorpack it came back with three.

    Args:
        quality_range: the least quality and one more than the greatest; not integers, or an empty range, are refused.
    """

    def __init__(self, quality_range: Sequence[int] = (40, 100)) -> None:
        low, high = check_range(self, "quality_range", quality_range, 0, 101)
        if not all(isinstance(limit, (int, np.integer)) for limit in (low, high)) or low == high:
            raise ConfigError(f"JpegNoise got quality_range={shown(quality_range)}: expected two ascending integers")
        self.quality_range = (low, high)

    def _get_augment_params(self, img: np.ndarray) -> int:
        return int(self.rng.randint(*self.quality_range))

    def _augment(self, img: np.ndarray, param: int) -> np.ndarray:
        check_values(self, img)
        if img.ndim == 3 and img.shape[2] not in (1, 3):
            raise DataPointError(f"JpegNoise got an image of shape {img.shape}: expected one channel or three")
        cv2 = opencv()
        pixels = to_dtype_of(img, np.empty(0, np.uint8), clip=True)
        _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, param])
        decoded = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED)
        return decoded.reshape(img.shape).astype(img.dtype, copy=False)


@check_arguments
class MeanVarianceNormalize(PhotometricAugmentor):
    """Subtract the mean and divide by the standard deviation, or by ``1 / sqrt(values)`` if that is more.

    With ``all_channel`` all channels have one mean and deviation.
    """

    def __init__(self, all_channel: bool = True) -> None:
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_values(self, img)
        axis = _axes(img, self.all_channel)
        mean = img.mean(axis=axis, keepdims=True, dtype=np.float64)
        deviation = img.std(axis=axis, keepdims=True, dtype=np.float64)
        count = img.size // mean.size
        return ((img - mean) / np.maximum(deviation, 1 / np.sqrt(count))).astype(np.float32)


@check_arguments
class MinMaxNormalize(PhotometricAugmentor):
    """Scale and shift the values to the least and greatest value ``min`` and ``max``.

    With ``all_channel`` all channels are scaled alike. Equal values become the least; in tensorpack they became NaN.
    """

    def __init__(self, min: float = 0, max: float = 255, all_channel: bool = True) -> None:
        self.min = check_number(self, "min", min)
        self.max = check_number(self, "max", max, low=min)
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_values(self, img)
        axis = _axes(img, self.all_channel)
        least = img.min(axis=axis, keepdims=True).astype(np.float64)
        spread = img.max(axis=axis, keepdims=True) - least
        scaled = (img - least) / np.where(spread > 0, spread, 1)
        return (scaled * (self.max - self.min) + self.min).astype(np.float32)


def _axes(img: np.ndarray, all_channel: bool) -> tuple[int, ...]:
    return tuple(range(img.ndim)) if all_channel else (0, 1)
