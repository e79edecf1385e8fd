"""Outlines of objects: 28 x 28 pixels in black and white, 101 classes."""

import os

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, find_file, load_mat
from tpack.dataflow.dataset.image_lists import UnitImages
from tpack.errors import InputError
from tpack.utils.validation import check_arguments

_FILE = "caltech101_silhouettes_28_split1.mat"
_SOURCE = "https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat"
_NUM_CLASSES = 101
_SIDE = 28


@check_arguments
class Caltech101Silhouettes(UnitImages):
    """Yield ``[image, label]``: float32 of shape (28, 28), 0 or 1, and the number of the class from 0 to 100.

    The file is the published one, ``caltech101_silhouettes_28_split1.mat``; reading it needs SciPy. Images are upright,
    though the file has their pixels column by column.

    Args:
        name: ``"train"``, ``"val"`` or ``"test"``.
        dir: the directory of the file; None is this data set's own below `get_dataset_path()`.

    Raises:
        InputError: The file is missing, or differs from the published one.
    """

    _greatest = 1

    def __init__(self, name: str, shuffle: bool = True, dir: str | os.PathLike[str] | None = None) -> None:
        self.name = check_name(self, name, ("train", "val", "test"))
        path = find_file(data_dir(dir, "caltech101_data"), [_FILE], _SOURCE)
        rows, labels = load_mat(path, f"{name}_data", f"{name}_labels")
        labels = labels.ravel()
        if rows.ndim != 2 or rows.shape[1] != _SIDE * _SIDE or len(rows) != len(labels) or len(rows) == 0:
            given = f"{name}_data of shape {rows.shape} and {len(labels)} {name}_labels"
            raise InputError(f"{path} has {given}: expected (N, {_SIDE * _SIDE}) and N")
        if rows.max() > 1 or not 1 <= labels.min() <= labels.max() <= _NUM_CLASSES:
            raise InputError(f"{path} has values or labels out of range: expected 0 and 1, and 1 to {_NUM_CLASSES}")
        images = rows.astype(np.uint8).reshape(-1, _SIDE, _SIDE).transpose(0, 2, 1)
        super().__init__(np.ascontiguousarray(images), (labels - 1).astype(np.uint8), shuffle)
