"""Augmentors that choose among others, one of a plain function, and wrappers of two libraries, imported by users."""

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
        """Return the transform without effect."""
        return NoOpTransform()


@check_arguments
class MapImage(ImageAugmentor):
    """Change an image by a function.

    Args:
        func: takes and returns an image. It must not change its argument.
        coord_func: takes and returns coordinates of shape (N, 2); without it coordinates are refused.

    Raises:
        ConfigError: One of them cannot be called.
    """

    def __init__(
        self, func: Callable[[np.ndarray], np.ndarray], coord_func: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self.func = func
        self.coord_func = coord_func

    def get_transform(self, img: np.ndarray) -> Transform:
        """Return the function as a transform."""
        if self.coord_func is None:
            return TransformFactory(f"MapImage({self.func})", apply_image=self.func)
        return TransformFactory(f"MapImage({self.func})", apply_image=self.func, apply_coords=self.coord_func)


class _Choice(ImageAugmentor):
    """The base of augmentors that choose another one for each image."""

    def _choose(self) -> ImageAugmentor:
        raise UnsupportedTransformError(f"{type(self).__name__} has no _choose(): define it in the subclass")

    def get_transform(self, img: np.ndarray) -> Transform:
        """Return the transform of the chosen augmentor."""
        return self._choose().get_transform(img)

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image with a newly decided change, and that change."""
        return self._choose().augment_return_params(d)


@check_arguments
class RandomApplyAug(_Choice):
    """Use an augmentor with some probability, else none."""

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
        aug_lists: the augmentors, with equal probabilities; or pairs of an augmentor and its probability.

    Raises:
        ConfigError: There is none, or the sum of the probabilities is not 1.
    """

    def __init__(self, aug_lists: Sequence[Any]) -> None:
        if len(aug_lists) == 0:
            raise ConfigError("RandomChooseAug got aug_lists=[]: expected at least one augmentor")
        has_probs = isinstance(aug_lists[0], (list, tuple))
        if any(isinstance(entry, (list, tuple)) != has_probs or (has_probs and len(entry) != 2) for entry in aug_lists):
            raise ConfigError("RandomChooseAug got aug_lists of augmentors and pairs: expected only one kind")
        pairs = list(aug_lists) if has_probs else [(augmentor, 1 / len(aug_lists)) for augmentor in aug_lists]
        self.augmentors = [check_augmentor(self, f"aug_lists[{k}]", pair[0]) for k, pair in enumerate(pairs)]
        self.probs = [check_number(self, f"aug_lists[{k}][1]", pair[1], 0, 1) for k, pair in enumerate(pairs)]
        if abs(sum(self.probs) - 1) > 1e-6:
            raise ConfigError(f"RandomChooseAug got probabilities with the sum {sum(self.probs):g}: expected 1")

    def _choose(self) -> ImageAugmentor:
        last = len(self.augmentors) - 1
        return self.augmentors[min(int(np.searchsorted(np.cumsum(self.probs), self.rng.rand(), "right")), last)]


@check_arguments
class RandomOrderAug(_Choice):
    """Use all of several augmentors, in another order for each image."""

    def __init__(self, aug_lists: Sequence[ImageAugmentor]) -> None:
        self.augmentors = list(aug_lists)

    def _choose(self) -> ImageAugmentor:
        return AugmentorList([self.augmentors[k] for k in self.rng.permutation(len(self.augmentors))])


@check_arguments
class Albumentations(ImageAugmentor):
    """Wrap a transform, or a composition, of the library albumentations.

    Each image has a seed, drawn from our generator. Coordinates are refused: the library moves only its annotations.

    Args:
        augmentor: an object called as ``augmentor(image=...)["image"]`` with ``set_random_seed``, as in version 2.

    Raises:
        ConfigError: It is another object.
    """

    def __init__(self, augmentor: Any) -> None:
        if not callable(augmentor) or not hasattr(augmentor, "set_random_seed"):
            kind = type(augmentor).__name__
            raise ConfigError(f"Albumentations got a {kind}: expected a transform with set_random_seed(), of version 2")
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
        """Seed the transform and call it; on a copy, since some change their argument."""
        self.augmentor.set_random_seed(self.seed)
        return self.augmentor(image=img.copy())["image"]


@check_arguments
class IAAugmentor(ImageAugmentor):
    """Wrap an augmenter of the library imgaug; each image has a seed, drawn from our generator.

    Args:
        augmentor: an object with ``seed_``, ``to_deterministic``, ``augment_image`` and ``augment``, as in version 0.4.

    Raises:
        ConfigError: It is another object.
    """

    def __init__(self, augmentor: Any) -> None:
        wanted = ("seed_", "to_deterministic", "augment_image", "augment")
        missing = [name for name in wanted if not hasattr(augmentor, name)]
        if missing:
            given = f"IAAugmentor got a {type(augmentor).__name__} without {', '.join(missing)}"
            raise ConfigError(f"{given}: expected an augmenter of imgaug 0.4")
        self.augmentor = augmentor

    def get_transform(self, img: np.ndarray) -> Transform:
        """Draw a seed."""
        self.augmentor.seed_(int(self.rng.randint(_SEEDS)))
        return _IAATransform(self.augmentor.to_deterministic(), img.shape)


class _IAATransform(Transform):
    """An augmenter of imgaug with fixed random numbers."""

    def __init__(self, augmentor: Any, shape: tuple[int, ...]) -> None:
        self.augmentor = augmentor
        self.shape = shape

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Call the augmenter."""
        return self.augmentor.augment_image(img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Call the augmenter, which needs an image for its size; its coordinates are continuous as ours."""
        coords = check_points(self, coords, 2)
        image = np.zeros(self.shape, dtype=np.uint8)
        _, moved = self.augmentor.augment(image=image, keypoints=[tuple(point) for point in coords.tolist()])
        return np.array(moved, dtype=coords.dtype).reshape(-1, 2)
