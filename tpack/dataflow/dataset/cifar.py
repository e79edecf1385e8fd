"""Small photographs: 32 x 32 pixels in colour, ten or a hundred classes."""

import os
from collections.abc import Sequence

import numpy as np

from tpack.dataflow.dataset.cifar_files import CIFAR10, CIFAR100, read_label_names, read_part
from tpack.dataflow.dataset.files import check_name, data_dir
from tpack.dataflow.dataset.labelled_images import LabelledImages, mean_image
from tpack.errors import ConfigError

_FORMATS = {10: CIFAR10, 100: CIFAR100}
_PARTS = ("train", "test")


class CifarBase(LabelledImages):
    """Yield ``[image, label]``: uint8 of shape (32, 32, 3) in red, green and blue, and the number of the class.

    The files are the published ones, in the binary version or in the one that is called the Python version. The classes
    of CIFAR-100 are the hundred fine ones.
    """

    def __init__(
        self,
        train_or_test: str,
        shuffle: bool | None = None,
        dir: str | os.PathLike[str] | None = None,
        cifar_classnum: int = 10,
    ) -> None:
        """Make the flow.

        Args:
            train_or_test: ``"train"`` or ``"test"``.
            shuffle: whether each pass has a new order; None does for training.
            dir: where the unpacked directory is, or that itself; None is a directory of this data set's own below
                `get_dataset_path()`.
            cifar_classnum: 10 or 100.

        Raises:
            ConfigError: There is no such part or data set.
            InputError: A file is missing, or its content is not what was published.
        """
        check_name(self, train_or_test, _PARTS)
        if cifar_classnum not in _FORMATS:
            raise ConfigError(f"{type(self).__name__} got cifar_classnum={cifar_classnum!r}: wanted 10 or 100")
        self.cifar_classnum = cifar_classnum
        self.train_or_test = train_or_test
        self.dir = data_dir(dir, f"cifar{cifar_classnum}_data")
        images, labels = read_part(_FORMATS[cifar_classnum], self.dir, train_or_test)
        super().__init__(images, labels, train_or_test == "train" if shuffle is None else shuffle)

    def get_per_pixel_mean(self, names: Sequence[str] = _PARTS) -> np.ndarray:
        """Return the mean of all images of some parts, float32 of shape (32, 32, 3).

        Args:
            names: which parts.
        """
        return mean_image([self._images_of(name) for name in dict.fromkeys(names)])

    def get_per_channel_mean(self, names: Sequence[str] = _PARTS) -> np.ndarray:
        """Return the mean red, green and blue of all images of some parts, float32 of shape (3,).

        Args:
            names: which parts.
        """
        return self.get_per_pixel_mean(names).mean(axis=(0, 1))

    def get_label_names(self) -> list[str]:
        """Return the names of the classes, from the files."""
        return read_label_names(_FORMATS[self.cifar_classnum], self.dir)

    def _images_of(self, name: str) -> np.ndarray:
        """Return the images of a part."""
        check_name(self, name, _PARTS)
        if name == self.train_or_test:
            return self.images
        return read_part(_FORMATS[self.cifar_classnum], self.dir, name)[0]


class Cifar10(CifarBase):
    """CIFAR-10; see `CifarBase`."""

    def __init__(
        self, train_or_test: str, shuffle: bool | None = None, dir: str | os.PathLike[str] | None = None
    ) -> None:
        """Make the flow; see `CifarBase`."""
        super().__init__(train_or_test, shuffle, dir, 10)


class Cifar100(CifarBase):
    """CIFAR-100; see `CifarBase`."""

    def __init__(
        self, train_or_test: str, shuffle: bool | None = None, dir: str | os.PathLike[str] | None = None
    ) -> None:
        """Make the flow; see `CifarBase`."""
        super().__init__(train_or_test, shuffle, dir, 100)
