"""Image augmentors in an older style."""

from typing import Any

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform, TransformFactory
from tpack.legacy.table import say


class TransformAugmentorBase(ImageAugmentor):
    """An augmentor whose ``_get_augment_params(img)`` returns a `Transform`: older than ``get_transform``."""

    def get_transform(self, img: np.ndarray) -> Transform:
        """Return the result of ``_get_augment_params``."""
        say("TransformAugmentorBase._get_augment_params", "ImageAugmentor.get_transform")
        transform: Transform = self._get_augment_params(img)
        return transform


class PhotometricAugmentor(ImageAugmentor):
    """An augmentor of pixels only: ``_augment(img, params)`` with the result of ``_get_augment_params(img)``."""

    def get_transform(self, img: np.ndarray) -> Transform:
        """Decide on the change of an image; coordinates stay."""
        params = self._get_augment_params(img)
        return TransformFactory(
            f"from {self}", apply_image=lambda image: self._augment(image, params), apply_coords=lambda coords: coords
        )

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        """Return the changed image."""
        raise NotImplementedError(f"{type(self).__name__} has no _augment(): define it in the subclass")
