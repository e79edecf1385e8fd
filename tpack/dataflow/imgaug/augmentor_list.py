"""Augmentors used one after the other, as one."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor
from tpack.dataflow.imgaug.transform import Transform
from tpack.dataflow.imgaug.transform_list import TransformList
from tpack.errors import ConfigError


class AugmentorList(ImageAugmentor):
    """Use each augmentor of a list on what the one before it gave."""

    def __init__(self, augmentors: Iterable[ImageAugmentor]) -> None:
        """Make the list.

        Raises:
            ConfigError: A member is no ImageAugmentor.
        """
        self.augmentors = [check_augmentor(self, augmentor) for augmentor in augmentors]

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide how an image is changed; all but the last change are made to find out what comes after them."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors[:-1]:
            img, transform = augmentor.augment_return_params(img)
            transforms.append(transform)
        return TransformList([*transforms, *(last.get_transform(img) for last in self.augmentors[-1:])])

    def augment_return_params(self, d: np.ndarray) -> tuple[np.ndarray, Transform]:
        """Return an image changed in a way that is decided on anew, and that way; each change is made once."""
        transforms: list[Transform] = []
        for augmentor in self.augmentors:
            d, transform = augmentor.augment_return_params(d)
            transforms.append(transform)
        return d, TransformList(transforms)

    def augment(self, img: np.ndarray) -> np.ndarray:
        """Return an image changed in a way that is decided on anew."""
        for augmentor in self.augmentors:
            img = augmentor.augment(img)
        return img


def check_augmentor(owner: Any, augmentor: Any) -> ImageAugmentor:
    """Return the argument.

    Raises:
        ConfigError: It is no ImageAugmentor.
    """
    if not isinstance(augmentor, ImageAugmentor):
        raise ConfigError(f"{type(owner).__name__} got a {type(augmentor).__name__}: wanted an ImageAugmentor")
    return augmentor
