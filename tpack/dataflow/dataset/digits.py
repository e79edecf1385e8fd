"""Handwritten digits of 8 x 8 pixels, which scikit-learn ships: a data set that is always available."""

import numpy as np

from tpack.dataflow.dataset.files import check_name
from tpack.dataflow.dataset.image_lists import UnitImages
from tpack.utils.optional import import_optional
from tpack.utils.validation import check_arguments

_NUM_TRAIN = 1437


@check_arguments
class Digits(UnitImages):
    """Yield ``[image, label]``: float32 of shape (8, 8) from 0 to 1, and the digit.

    The first 1437 of the 1797 images are for training, the other 360 for testing. They have the order of their
    collection, so the test is harder than one on a random part.

    Args:
        train_or_test: ``"train"`` or ``"test"``.
        shuffle: whether each pass has a new order.
    """

    _greatest = 16

    def __init__(self, train_or_test: str, shuffle: bool = True) -> None:
        check_name(self, train_or_test, ("train", "test"), "train_or_test")
        found = import_optional("sklearn.datasets", "examples").load_digits()
        part = slice(_NUM_TRAIN) if train_or_test == "train" else slice(_NUM_TRAIN, None)
        super().__init__(found.images[part].astype(np.uint8), found.target[part].astype(np.uint8), shuffle)
        self.train_or_test = train_or_test
