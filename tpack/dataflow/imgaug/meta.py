"""Augmentors that use others by chance, and one that is a plain function."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.augmentor_list import AugmentorList, check_augmentor
from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_number
from tpack.dataflow.imgaug.transform import NoOpTransform, Transform, UnsupportedTransformError
from tpack.dataflow.imgaug.transform_factory import TransformFactory
from tpack.errors import ConfigError


class Identity(ImageAugmentor):
    """Change nothing."""

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on nothing."""
        return NoOpTransform()


class MapImage(ImageAugmentor):
    """Change an image by a function."""

    def __init__(
        self,
        func: Callable[[np.ndarray], np.ndarray],
        coord_func: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        """Make the augmentor.

        Args:
            func: takes and returns an image. It must not change the one it gets.
            coord_func: takes and returns coordinates of shape (N, 2); without it coordinates are refused.

        Raises:
            ConfigError: One of them cannot be called.
        """
        if not callable(func) or not (coord_func is None or callable(coord_func)):
            raise ConfigError(f"MapImage got func={func!r} and coord_func={coord_func!r}: wanted functions")
        self.func = func
        self.coord_func = coord_func

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on the function."""
        if self.coord_func is None:
            return TransformFactory(f"MapImage({self.func})", apply_image=self.func)
        return TransformFactory(f"MapImage({self.func})", apply_image=self.func, apply_coords=self.coord_func)


class _Choice(ImageAugmentor):
    """The base of augmentors that do what another does, which they choose for each image."""

    def _choose(self) -> ImageAugmentor:
        """Return the other."""
        raise UnsupportedTransformError(f"{type(self).__name__} is no augmentor yet: it has no _choose()")

    def get_transform(self, img: np.ndarray) -> Transform:
        """Choose, and let the chosen one decide."""
        return self._choose().get_transform(img)

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image changed in a way that is decided on anew, and that way."""
        return self._choose().augment_return_params(d)


class RandomApplyAug(_Choice):
    """Use an augmentor or none."""

    def __init__(self, aug: ImageAugmentor, prob: float) -> None:
        """Make the augmentor.

        Args:
            aug: the augmentor.
            prob: how probable it is to be used.
        """
        self.aug = check_augmentor(self, aug)
        self.prob = check_number(self, "prob", prob, 0, 1)
        self._none = AugmentorList([])

    def parts(self) -> list[ImageAugmentor]:
        """Return the augmentor."""
        return [self.aug]

    def _choose(self) -> ImageAugmentor:
        return self.aug if self.rng.rand() < self.prob else self._none


class RandomChooseAug(_Choice):
    """Use one of several augmentors."""

    def __init__(self, aug_lists: Sequence[Any]) -> None:
        """Make the augmentor.

        Args:
            aug_lists: the augmentors, which are then as probable as each other; or pairs of an augmentor and how
                probable it is.

        Raises:
            ConfigError: There is none, or the probabilities are not 1 together.
        """
        if len(aug_lists) == 0:
            raise ConfigError("RandomChooseAug got no augmentor: wanted at least one")
        has_probs = isinstance(aug_lists[0], (list, tuple))
        pairs = list(aug_lists) if has_probs else [(augmentor, 1 / len(aug_lists)) for augmentor in aug_lists]
        self.augmentors = [check_augmentor(self, augmentor) for augmentor, _ in pairs]
        self.probs = [check_number(self, "a probability", prob, 0, 1) for _, prob in pairs]
        if abs(sum(self.probs) - 1) > 1e-6:
            raise ConfigError(f"RandomChooseAug got probabilities that are {sum(self.probs):g} together: wanted 1")

    def _choose(self) -> ImageAugmentor:
        last = len(self.augmentors) - 1
        return self.augmentors[min(int(np.searchsorted(np.cumsum(self.probs), self.rng.rand(), "right")), last)]


class RandomOrderAug(_Choice):
    """Use all of several augmentors, each time in another order."""

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        """Make the augmentor.

        Args:
            aug_lists: the augmentors.
        """
        self.augmentors = [check_augmentor(self, augmentor) for augmentor in aug_lists]

    def _choose(self) -> ImageAugmentor:
        return AugmentorList([self.augmentors[k] for k in self.rng.permutation(len(self.augmentors))])
