"""Values bent by a curve, or limited."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.checks import check_image, check_number, check_range
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, map_values
from tpack.errors import ConfigError


class Gamma(PhotometricAugmentor):
    """Raise the values, as parts of 255, to a random power.

    With the number g that is drawn it is ``1 / (1 + g)``: more than 0 makes brighter. Floats are limited to 0 and 255
    before, and not rounded, as they were in tensorpack.
    """

    def __init__(self, range: Sequence[float] = (-0.5, 0.5)) -> None:
        """Make the augmentor.

        Args:
            range: the least and the greatest g, both more than -1.

        Raises:
            ConfigError: The least is not.
        """
        self.range = check_range(self, "range", range)
        if not self.range[0] > -1:
            raise ConfigError(f"Gamma got range={range!r}: wanted numbers of more than -1")

    def _get_augment_params(self, img: np.ndarray) -> float:
        return 1 / (1 + self._rand_range(*self.range))

    def _augment(self, img: np.ndarray, param: float) -> np.ndarray:
        return map_values(self, img, lambda values: (np.clip(values, 0, 255) / 255) ** param * 255)


class Clip(PhotometricAugmentor):
    """Limit the values."""

    def __init__(self, min: float = 0, max: float = 255) -> None:
        """Make the augmentor.

        Args:
            min: the least value.
            max: the greatest value.
        """
        self.min = check_number(self, "min", min)
        self.max = check_number(self, "max", max, low=min)

    def _augment(self, img: np.ndarray, param: Any) -> np.ndarray:
        check_image(self, img)
        return map_values(self, img, lambda values: np.clip(values, self.min, self.max), clip=False)
