"""Colours changed: their hue, how full they are, the light they are seen in."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_color, check_number, check_range
from tpack.dataflow.imgaug.convert import convert_color
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, map_values, to_dtype_of
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError


class Hue(PhotometricAugmentor):
    """Turn the hue of all colours by a random angle.

    The unit is OpenCV's for uint8: 180 is the whole circle, for float images too.
    """

    def __init__(self, range: Sequence[float] = (0, 180), rgb: bool = True) -> None:
        """Make the augmentor.

        Args:
            range: the least and the greatest angle; (0, 180) and (-90, 90) are all there are.
            rgb: whether the channels are red, green and blue, and not blue, green and red.
        """
        self.range = check_range(self, "range", range, -180, 180)
        self.rgb = rgb

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        check_color(self, img)
        cv2 = opencv()
        there, back = (cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB) if self.rgb else (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR)
        # In floats the circle has 360 degrees, and nothing is rounded on the way.
        hsv = convert_color(img.astype(np.float32, copy=False), there)
        hsv[:, :, 0] = (hsv[:, :, 0] + np.float32(2 * param)) % np.float32(360)
        return to_dtype_of(convert_color(hsv, back), img, clip=False)


class Saturation(PhotometricAugmentor):
    """Make colours fuller or paler: multiply their distance from the image made grey by a random number."""

    def __init__(self, alpha: float = 0.4, rgb: bool = True, clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            alpha: the number is between ``1 - alpha`` and ``1 + alpha``.
            rgb: whether the channels are red, green and blue, and not blue, green and red.
            clip: whether floats are limited to 0 and 255; uint8 always is.
        """
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


class Lighting(PhotometricAugmentor):
    """Add a random colour along the directions in which the colours of a data set vary.

    Source:
        Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012
    """

    def __init__(self, std: float, eigval: Any, eigvec: Any, clip: bool = True) -> None:
        """Make the augmentor.

        Args:
            std: the standard deviation of the random numbers, one for each direction.
            eigval: the three eigenvalues of the covariance of the colours.
            eigvec: of shape (3, 3): column k is the eigenvector of eigenvalue k, in the order of the image's channels.
            clip: whether floats are limited to 0 and 255; uint8 always is.

        Raises:
            ConfigError: The eigenvalues or eigenvectors have other shapes.
        """
        self.std = check_number(self, "std", std, low=0)
        self.eigval = np.asarray(eigval, dtype=np.float64)
        self.eigvec = np.asarray(eigvec, dtype=np.float64)
        if self.eigval.shape != (3,) or self.eigvec.shape != (3, 3):
            raise ConfigError(
                f"Lighting got eigenvalues of shape {self.eigval.shape} and eigenvectors of shape {self.eigvec.shape}: "
                "wanted (3,) and (3, 3)"
            )
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> np.ndarray:
        return self.rng.randn(3) * self.std

    def _augment(self, img: np.ndarray, param: np.ndarray) -> np.ndarray:
        check_color(self, img)
        color = (self.eigvec @ (param * self.eigval)).astype(np.float32)
        return map_values(self, img, lambda values: values + color, self.clip)
