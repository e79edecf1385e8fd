"""Colours and values: brightness, contrast, hue, saturation, lighting, gamma curves and limits."""

from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.checks import check_color, check_range, check_values
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, convert_color, map_values, to_dtype_of
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_number, shown


@check_arguments
class Brightness(PhotometricAugmentor):
    """Add a random number from ``-delta`` to ``delta`` to all values; floats are limited to 0 and 255 with ``clip``."""

    def __init__(self, delta: float, clip: bool = True) -> None:
        self.delta = check_number(self, "delta", delta, low=0)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(-self.delta, self.delta)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: values + param, self.clip)


@check_arguments
class BrightnessScale(PhotometricAugmentor):
    """Multiply all values by a random number from ``range``; floats are limited to 0 and 255 with ``clip``."""

    def __init__(self, range: Sequence[float], clip: bool = True) -> None:
        self.range = check_range(self, "range", range, low=0)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: values * param, self.clip)


@check_arguments
class Contrast(PhotometricAugmentor):
    """Multiply the distance of all values from their mean by a random number.

    Args:
        factor_range: the least and the greatest factor.
        rgb: None takes the mean of each channel. Otherwise all have one mean, that of the grey image: True if they are
            red, green and blue, False if blue, green and red.
        clip: whether floats are limited to 0 and 255; uint8 always is.
    """

    def __init__(self, factor_range: Sequence[float], rgb: bool | None = None, clip: bool = True) -> None:
        self.factor_range = check_range(self, "factor_range", factor_range, low=0)
        self.rgb = rgb
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.factor_range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        mean = self._mean(img)
        return map_values(self, img, lambda values: (values - mean) * param + mean, self.clip)

    def _mean(self, img: np.ndarray) -> np.ndarray | np.float32:
        """Return one mean, or one for each channel."""
        check_values(self, img)
        if self.rgb is None or img.ndim == 2 or img.shape[2] == 1:
            return img.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)
        check_color(self, img)
        mode = opencv().COLOR_RGB2GRAY if self.rgb else opencv().COLOR_BGR2GRAY
        return np.float32(convert_color(img.astype(np.float32), mode).mean(dtype=np.float64))


@check_arguments
class Hue(PhotometricAugmentor):
    """Turn the hue of all colours by a random angle.

    The unit is OpenCV's for uint8: 180 is the whole circle, for float images too.

    Args:
        range: the least and the greatest angle; (0, 180) and (-90, 90) are all of them.
        rgb: whether the channels are red, green and blue, and not blue, green and red.
    """

    def __init__(self, range: Sequence[float] = (0, 180), rgb: bool = True) -> None:
        self.range = check_range(self, "range", range, -180, 180)
        self.rgb = rgb

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        check_color(self, img)
        cv2 = opencv()
        there, back = (cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB) if self.rgb else (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR)
        # In floats the circle has 360 degrees, and nothing is rounded.
        hsv = convert_color(img.astype(np.float32, copy=False), there)
        hsv[:, :, 0] = (hsv[:, :, 0] + np.float32(2 * param)) % np.float32(360)
        return to_dtype_of(convert_color(hsv, back), img, clip=False)


@check_arguments
class Saturation(PhotometricAugmentor):
    """Multiply the distance of all colours from the grey image by a random number from ``1 - alpha`` to ``1 + alpha``.

    Args:
        rgb: whether the channels are red, green and blue, and not blue, green and red.
        clip: whether floats are limited to 0 and 255; uint8 always is.
    """

    def __init__(self, alpha: float = 0.4, rgb: bool = True, clip: bool = True) -> None:
        self.alpha = check_number(self, "alpha", alpha, 0, 1)
        self.rgb = rgb
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return 1 + self._rand_range(-self.alpha, self.alpha)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        check_color(self, img)
        mode = opencv().COLOR_RGB2GRAY if self.rgb else opencv().COLOR_BGR2GRAY
        values = img.astype(np.float32, copy=False)
        grey = convert_color(values, mode)[:, :, np.newaxis]
        return to_dtype_of(values * np.float32(param) + grey * np.float32(1 - param), img, self.clip)


@check_arguments
class Lighting(PhotometricAugmentor):
    """Add a random colour along the principal directions of the colours of a data set.

    Args:
        std: the standard deviation of the random numbers, one for each direction.
        eigval: the three eigenvalues of the covariance of the colours.
        eigvec: of shape (3, 3): column k is the eigenvector of eigenvalue k, in the order of the image's channels.

    Raises:
        ConfigError: The eigenvalues or eigenvectors have other shapes.

    Source:
        Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012
    """

    def __init__(
        self,
        std: float,
        eigval: Sequence[float] | np.ndarray,
        eigvec: Sequence[Sequence[float]] | np.ndarray,
        clip: bool = True,
    ) -> None:
        self.std = check_number(self, "std", std, low=0)
        self.eigval = np.asarray(eigval, dtype=np.float64)
        self.eigvec = np.asarray(eigvec, dtype=np.float64)
        if self.eigval.shape != (3,) or self.eigvec.shape != (3, 3):
            shapes = f"eigval of shape {self.eigval.shape} and eigvec of shape {self.eigvec.shape}"
            raise ConfigError(f"Lighting got {shapes}: expected (3,) and (3, 3)")
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> np.ndarray:
        return self.rng.randn(3) * self.std

    def _augment(self, img: np.ndarray, param: np.ndarray) -> np.ndarray:
        check_color(self, img)
        color = (self.eigvec @ (param * self.eigval)).astype(np.float32)
        return map_values(self, img, lambda values: values + color, self.clip)


@check_arguments
class Gamma(PhotometricAugmentor):
    """Raise the values, divided by 255, to a random power ``1 / (1 + g)``: g above 0 makes the image brighter.

    Floats are first limited to 0 and 255, and not rounded, unlike in tensorpack.

    Args:
        range: the least and the greatest g, both more than -1; others raise a ConfigError.
    """

    def __init__(self, range: Sequence[float] = (-0.5, 0.5)) -> None:
        self.range = check_range(self, "range", range)
        if not self.range[0] > -1:
            raise ConfigError(f"Gamma got range={shown(range)}: expected numbers above -1")

    def _get_augment_params(self, img: np.ndarray) -> float:
        return 1 / (1 + self._rand_range(*self.range))

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: (np.clip(values, 0, 255) / 255) ** param * 255)


@check_arguments
class Clip(PhotometricAugmentor):
    """Limit the values to ``min`` and ``max``."""

    def __init__(self, min: float = 0, max: float = 255) -> None:
        self.min = check_number(self, "min", min)
        self.max = check_number(self, "max", max, low=min)

    def _augment(self, img: np.ndarray, param: object) -> np.ndarray:
        check_values(self, img)
        return map_values(self, img, lambda values: np.clip(values, self.min, self.max), clip=False)
