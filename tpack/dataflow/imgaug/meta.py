"""Augmentors that use others by chance, one that is a plain function, and those of two other libraries used as ours.

Neither library is imported: what is wrapped brings it along.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import (
    AugmentorList,
    ImageAugmentor,
    NoOpTransform,
    Transform,
    TransformFactory,
    UnsupportedTransformError,
    check_augmentor,
)
from tpack.dataflow.imgaug.checks import check_points
from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_number

_SEEDS = 2**31 - 1


class Identity(ImageAugmentor):
    """Change nothing."""

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on nothing."""
        return NoOpTransform()


@check_arguments
class MapImage(ImageAugmentor):
    """Change an image by a function.

    Args:
        func: takes and returns an image. It must not change the one it gets.
        coord_func: takes and returns coordinates of shape (N, 2); without it coordinates are refused.

    Raises:
        ConfigError: One of them cannot be called.
    """

    def __init__(
        self,
        func: Callable[[np.ndarray], np.ndarray],
        coord_func: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
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


@check_arguments
class RandomApplyAug(_Choice):
    """Use an augmentor or none.

    Args:
        aug: the augmentor.
        prob: how probable it is to be used.
    """

    def __init__(self, aug: ImageAugmentor, prob: float) -> None:
        self.aug = aug
        self.prob = check_number(self, "prob", prob, 0, 1)
        self._none = AugmentorList([])

    def parts(self) -> list[ImageAugmentor]:
        """Return the augmentor."""
        return [self.aug]

    def _choose(self) -> ImageAugmentor:
        return self.aug if self.rng.rand() < self.prob else self._none


@check_arguments
class RandomChooseAug(_Choice):
    """Use one of several augmentors.

    Args:
        aug_lists: the augmentors, which are then as probable as each other; or pairs of an augmentor and how
            probable it is.

    Raises:
        ConfigError: There is none, or the probabilities are not 1 together.
    """

    def __init__(self, aug_lists: Sequence[Any]) -> None:
        if len(aug_lists) == 0:
            raise ConfigError("RandomChooseAug got aug_lists=[]: expected at least one augmentor")
        has_probs = isinstance(aug_lists[0], (list, tuple))
        if any(isinstance(entry, (list, tuple)) != has_probs or (has_probs and len(entry) != 2) for entry in aug_lists):
            raise ConfigError("RandomChooseAug got aug_lists of augmentors and pairs: expected one or the other")
        pairs = list(aug_lists) if has_probs else [(augmentor, 1 / len(aug_lists)) for augmentor in aug_lists]
        self.augmentors = [check_augmentor(self, f"aug_lists[{k}]", pair[0]) for k, pair in enumerate(pairs)]
        self.probs = [check_number(self, f"aug_lists[{k}][1]", pair[1], 0, 1) for k, pair in enumerate(pairs)]
        if abs(sum(self.probs) - 1) > 1e-6:
            raise ConfigError(f"RandomChooseAug got probabilities that are {sum(self.probs):g} together: expected 1")

    def _choose(self) -> ImageAugmentor:
        last = len(self.augmentors) - 1
        return self.augmentors[min(int(np.searchsorted(np.cumsum(self.probs), self.rng.rand(), "right")), last)]


@check_arguments
class RandomOrderAug(_Choice):
    """Use all of several augmentors, each time in another order.

    Args:
        aug_lists: the augmentors.
    """

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        self.augmentors = list(aug_lists)

    def _choose(self) -> ImageAugmentor:
        return AugmentorList([self.augmentors[k] for k in self.rng.permutation(len(self.augmentors))])


@check_arguments
class Albumentations(ImageAugmentor):
    """Wrap a transform, or a composition, of the library albumentations.

    Each image has a seed, drawn from our generator, so that runs repeat and a transform can be made again. The library
    gives no access to coordinates without their annotations: they are refused.

    Args:
        augmentor: what is called as ``augmentor(image=...)["image"]`` and has ``set_random_seed``, as in version 2.

    Raises:
        ConfigError: It has not.
    """

    def __init__(self, augmentor: Any) -> None:
        if not callable(augmentor) or not hasattr(augmentor, "set_random_seed"):
            raise ConfigError(
                f"Albumentations got a {type(augmentor).__name__}: expected a transform of albumentations 2, "
                "which is called with an image and has set_random_seed()"
            )
        self.augmentor = augmentor

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a seed."""
        return _AlbumentationsTransform(self.augmentor, int(self.rng.randint(_SEEDS)))


class _AlbumentationsTransform(Transform):
    """A transform of albumentations with a seed."""

    def __init__(self, augmentor: Any, seed: int) -> None:
        self.augmentor = augmentor
        self.seed = seed

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Seed the transform and call it; on a copy, since some change what they get."""
        self.augmentor.set_random_seed(self.seed)
        return self.augmentor(image=img.copy())["image"]


@check_arguments
class IAAugmentor(ImageAugmentor):
    """Wrap an augmenter of the library imgaug. Each image has a seed, drawn from our generator.

    Args:
        augmentor: what has ``seed_``, ``to_deterministic``, ``augment_image`` and ``augment``, as in version 0.4.

    Raises:
        ConfigError: It has not.
    """

    def __init__(self, augmentor: Any) -> None:
        wanted = ("seed_", "to_deterministic", "augment_image", "augment")
        missing = [name for name in wanted if not hasattr(augmentor, name)]
        if missing:
            raise ConfigError(
                f"IAAugmentor got a {type(augmentor).__name__} without {', '.join(missing)}: expected an augmenter of "
                "imgaug 0.4"
            )
        self.augmentor = augmentor

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a seed."""
        self.augmentor.seed_(int(self.rng.randint(_SEEDS)))
        return _IAATransform(self.augmentor.to_deterministic(), img.shape)


class _IAATransform(Transform):
    """An augmenter of imgaug that does the same each time."""

    def __init__(self, augmentor: Any, shape: tuple[int, ...]) -> None:
        self.augmentor = augmentor
        self.shape = shape

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call the augmenter."""
        return self.augmentor.augment_image(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Call the augmenter; to learn the size it wants an image too, and its coordinates are continuous as ours."""
        coords = check_points(self, coords, 2)
        image = np.zeros(self.shape, dtype=np.uint8)
        _, moved = self.augmentor.augment(image=image, keypoints=[tuple(point) for point in coords.tolist()])
        return np.array(moved, dtype=coords.dtype).reshape(-1, 2)
