"""Images blurred."""

from collections.abc import Sequence

import numpy as np

from tpack.dataflow.imgaug.checks import check_image, check_range
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor
from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import ConfigError


class GaussianBlur(PhotometricAugmentor):
    """Blur with a Gaussian window of random size."""

    def __init__(
        self,
        size_range: Sequence[int] = (0, 3),
        sigma_range: Sequence[float] = (0, 0),
        symmetric: bool = True,
        max_size: int | None = None,
    ) -> None:
        """Make the augmentor.

        Args:
            size_range: the window has ``2 * size + 1`` pixels, where size is at least the first and less than the
                second.
            sigma_range: the least and the greatest standard deviation; 0 is the one that OpenCV takes for the size.
            symmetric: whether the window is the same in both directions.
            max_size: if given, ``size_range`` is ``(0, max_size)``.

        Raises:
            ConfigError: The sizes are no integers, or the range is empty.
        """
        if max_size is not None:
            size_range = (0, max_size)
        low, high = check_range(self, "size_range", size_range, low=0)
        if not all(isinstance(limit, (int, np.integer)) for limit in (low, high)) or low == high:
            raise ConfigError(f"GaussianBlur got size_range={size_range!r}: wanted two integers, the second more")
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
        check_image(self, img)
        (size, (sigma_x, sigma_y)), blur = param, opencv().GaussianBlur
        return apply_per_channels(lambda part: blur(part, size, sigmaX=sigma_x, sigmaY=sigma_y), img)
