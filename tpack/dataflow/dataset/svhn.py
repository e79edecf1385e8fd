"""Digits of house numbers: 32 x 32 pixels in colour, ten classes."""

import os
from collections.abc import Sequence

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, find_file, load_mat
from tpack.dataflow.dataset.image_lists import LabelledImages, mean_image
from tpack.errors import InputError
from tpack.utils.validation import check_arguments

_PARTS = ("train", "test", "extra")
_SOURCE = "http://ufldl.stanford.edu/housenumbers"


@check_arguments
class SVHNDigit(LabelledImages):
    """Yield ``[image, label]``: uint8 of shape (32, 32, 3) in red, green and blue, and the digit.

    The files are the published ``train_32x32.mat``, ``test_32x32.mat`` and ``extra_32x32.mat``, where the digit 0 has
    the label 10. Reading them needs SciPy.

    Args:
        name: ``"train"``, ``"test"`` or ``"extra"``.
        data_dir: the directory of the files; None is this data set's own below `get_dataset_path()`.

    Raises:
        InputError: The file is missing, or differs from the published one.
    """

    def __init__(self, name: str, data_dir: str | os.PathLike[str] | None = None, shuffle: bool = True) -> None:
        self.name = check_name(self, name, _PARTS)
        super().__init__(*_read(name, data_dir), shuffle)

    @staticmethod
    def get_per_pixel_mean(names: Sequence[str] = _PARTS, data_dir: str | os.PathLike[str] | None = None) -> np.ndarray:
        """Return the mean of all images of some parts, float32 of shape (32, 32, 3)."""
        return mean_image([_read(name, data_dir)[0] for name in dict.fromkeys(names)])


def _read(name: str, folder: str | os.PathLike[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and digits of a part."""
    path = find_file(data_dir(folder, "svhn_data"), [f"{name}_32x32.mat"], _SOURCE)
    images, labels = load_mat(path, "X", "y")
    are_images = images.ndim == 4 and images.shape[:3] == (32, 32, 3) and images.dtype == np.uint8
    are_labels = are_images and labels.shape == (images.shape[3], 1) and labels.size > 0
    if not are_labels or not 1 <= labels.min() <= labels.max() <= 10:
        raise InputError(
            f"{path} has X of shape {images.shape} and dtype {images.dtype} and y of shape {labels.shape}: expected "
            "(32, 32, 3, N) of uint8 and (N, 1) of 1 to 10"
        )
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), (labels[:, 0] % 10).astype(np.uint8)
