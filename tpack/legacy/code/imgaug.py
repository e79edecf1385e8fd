"""Image augmentors in an older style."""

import numpy as np

from tpack.dataflow.imgaug.base import ImageAugmentor, Transform
from tpack.legacy.table import say


class TransformAugmentorBase(ImageAugmentor):
    """An augmentor whose ``_get_augment_params(img)`` returns a `Transform`: older than ``get_transform``."""

    def get_transform(self, img: np.ndarray) -> Transform:
        """Return the result of ``_get_augment_params``."""
        say("TransformAugmentorBase._get_augment_params", "ImageAugmentor.get_transform")
        transform: Transform = self._get_augment_params(img)
        return transform
