"""Handwritten digits and images of clothes: 28 x 28 pixels in grey, ten classes.

`Digits`, of 8 x 8 pixels, come with scikit-learn and are always available.
"""

import os

import numpy as np

from tpack.dataflow.dataset.files import check_name, check_same_length, data_dir, find_file, read_bytes
from tpack.dataflow.dataset.image_lists import UnitImages
from tpack.errors import InputError
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments

_PREFIXES = {"train": "train", "test": "t10k"}
_SIDE = 28
_NUM_TRAIN_DIGITS = 1437
_UNSIGNED_BYTES = 0x08


@check_arguments
class Mnist(UnitImages):
    """Yield ``[image, label]``: float32 of shape (28, 28) from 0 to 1, and the digit.

    The files are the published four, such as ``train-images-idx3-ubyte.gz``, compressed or not.

    Args:
        train_or_test: ``"train"`` or ``"test"``.
        dir: the directory of the files; None is this data set's own below `get_dataset_path()`.

    Raises:
        InputError: A file is missing, or differs from the published one.
    """

    _more_axes = (1,)
    _default_dir = "mnist_data"
    _source = "https://ossci-datasets.s3.amazonaws.com/mnist"

    def __init__(self, train_or_test: str, shuffle: bool = True, dir: str | os.PathLike[str] | None = None) -> None:
        prefix = _PREFIXES[check_name(self, train_or_test, tuple(_PREFIXES), "train_or_test")]
        folder = data_dir(dir, self._default_dir)
        images_path = self._find(folder, f"{prefix}-images-idx3-ubyte")
        labels_path = self._find(folder, f"{prefix}-labels-idx1-ubyte")
        images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
        check_same_length(images_path, images, labels_path, labels)
        if images.shape[1:] != (_SIDE, _SIDE):
            raise InputError(f"{images_path} has images of shape {images.shape[1:]}: expected ({_SIDE}, {_SIDE})")
        if labels.max() > 9:
            raise InputError(f"{labels_path} has the label {labels.max()}: expected 0 to 9")
        super().__init__(images, labels, shuffle)
        self.train_or_test = train_or_test

    def _find(self, folder: str, name: str) -> str:
        return find_file(folder, [f"{name}.gz", name], self._source)

    def get_label_names(self) -> list[str]:
        """Return the names of the ten classes."""
        return [str(digit) for digit in range(10)]


class FashionMnist(Mnist):
    """Yield ``[image, label]`` as `Mnist` does, of images of clothes."""

    _default_dir = "fashion_mnist_data"
    _source = "https://github.com/zalandoresearch/fashion-mnist"

    def get_label_names(self) -> list[str]:
        """Return the names of the ten classes."""
        clothes = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
        return clothes.split(",")


@check_arguments
class Digits(UnitImages):
    """Yield ``[image, label]``: float32 of shape (8, 8) from 0 to 1, and the digit.

    The first 1437 of the 1797 images are for training, the other 360 for testing. They have the order of their
    collection, so the test is harder than one on a random part.
    """

    _greatest = 16

    def __init__(self, train_or_test: str, shuffle: bool = True) -> None:
        check_name(self, train_or_test, ("train", "test"), "train_or_test")
        found = import_optional("sklearn.datasets", "examples").load_digits()
        part = slice(_NUM_TRAIN_DIGITS) if train_or_test == "train" else slice(_NUM_TRAIN_DIGITS, None)
        super().__init__(found.images[part].astype(np.uint8), found.target[part].astype(np.uint8), shuffle)
        self.train_or_test = train_or_test


def read_idx(path: str, dimensions: int) -> np.ndarray:
    """Return the array in a file, compressed if its name ends in ``.gz``: a big-endian header, then unsigned bytes.

    Raises:
        InputError: The file has another format or number of dimensions, or more or fewer bytes than its header says.

    Source:
        http://yann.lecun.com/exdb/mnist
    """
    content = read_bytes(path)
    start = 4 + 4 * dimensions
    if len(content) < start or content[:4] != bytes([0, 0, _UNSIGNED_BYTES, dimensions]):
        start_bytes = content[:4].hex(" ")
        raise InputError(f"{path} begins with {start_bytes!r}: expected an idx file of {dimensions} dimensions")
    shape = [int(size) for size in np.frombuffer(content, ">u4", dimensions, offset=4)]
    size = int(np.prod(shape, dtype=object))
    if len(content) - start != size:
        raise InputError(f"{path} has {len(content) - start} bytes after its header: expected {size} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
