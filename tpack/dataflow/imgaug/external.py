"""Augmentors of two other libraries, used as ours. Neither library is imported: what is wrapped brings it along."""

from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.checks import check_points
from tpack.dataflow.imgaug.transform import Transform
from tpack.errors import ConfigError

_SEEDS = 2**31 - 1


class Albumentations(ImageAugmentor):
    """Wrap a transform, or a composition, of the library albumentations.

    Each image has a seed, drawn from our generator, so that runs repeat and a transform can be made again. The library
    gives no access to coordinates without their annotations: they are refused.
    """

    def __init__(self, augmentor: Any) -> None:
        """Make the augmentor.

        Args:
            augmentor: what is called as ``augmentor(image=...)["image"]`` and has ``set_random_seed``, as in version 2.

        Raises:
            ConfigError: It has not.
        """
        if not callable(augmentor) or not hasattr(augmentor, "set_random_seed"):
            raise ConfigError(
                f"Albumentations got a {type(augmentor).__name__}: wanted a transform of albumentations 2, "
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


class IAAugmentor(ImageAugmentor):
    """Wrap an augmenter of the library imgaug. Each image has a seed, drawn from our generator."""

    def __init__(self, augmentor: Any) -> None:
        """Make the augmentor.

        Args:
            augmentor: what has ``seed_``, ``to_deterministic``, ``augment_image`` and ``augment``, as in version 0.4.

        Raises:
            ConfigError: It has not.
        """
        wanted = ("seed_", "to_deterministic", "augment_image", "augment")
        missing = [name for name in wanted if not hasattr(augmentor, name)]
        if missing:
            raise ConfigError(
                f"IAAugmentor got a {type(augmentor).__name__} without {', '.join(missing)}: wanted an augmenter of "
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
