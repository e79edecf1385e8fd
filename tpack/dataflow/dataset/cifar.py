"""Small photographs: 32 x 32 pixels in colour, ten or a hundred classes, from either of the two published versions.

The binary version is preferred. The Python version is made of pickles, which are read without running their code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, find_file, read_bytes, read_lines
from tpack.dataflow.dataset.image_lists import LabelledImages, mean_image
from tpack.errors import ConfigError, InputError
from tpack.utils.formats import pickled_arrays
from tpack.utils.validation import check_arguments

_PARTS = ("train", "test")
_CHANNELS, _SIDE = 3, 32
_IMAGE_SIZE = _CHANNELS * _SIDE * _SIDE
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_MAX_ERROR_CHARS = 200


@check_arguments
class CifarBase(LabelledImages):
    """Yield ``[image, label]``: uint8 of shape (32, 32, 3) in red, green and blue, and the number of the class.

    The files are the published ones, in the binary or the Python version; CIFAR-100 has its hundred fine classes.

    Args:
        train_or_test: ``"train"`` or ``"test"``.
        shuffle: whether each pass has a new order; None is True for training only.
        dir: the unpacked directory, or the one around it; None is this data set's own below `get_dataset_path()`.
        cifar_classnum: 10 or 100.

    Raises:
        ConfigError: There is no such part or data set.
        InputError: A file is missing, or differs from the published one.
    """

    def __init__(
        self,
        train_or_test: str,
        shuffle: bool | None = None,
        dir: str | os.PathLike[str] | None = None,
        cifar_classnum: int = 10,
    ) -> None:
        check_name(self, train_or_test, _PARTS, "train_or_test")
        if cifar_classnum not in _FORMATS:
            raise ConfigError(f"{type(self).__name__} got cifar_classnum={cifar_classnum!r}: expected 10 or 100")
        self.cifar_classnum = cifar_classnum
        self.train_or_test = train_or_test
        self.dir = data_dir(dir, f"cifar{cifar_classnum}_data")
        images, labels = read_part(_FORMATS[cifar_classnum], self.dir, train_or_test)
        super().__init__(images, labels, train_or_test == "train" if shuffle is None else shuffle)

    def get_per_pixel_mean(self, names: Sequence[str] = _PARTS) -> np.ndarray:
        """Return the mean of all images of the parts in ``names``, float32 of shape (32, 32, 3)."""
        parts = []
        for name in dict.fromkeys(names):
            check_name(self, name, _PARTS)
            is_own = name == self.train_or_test
            parts.append(self.images if is_own else read_part(_FORMATS[self.cifar_classnum], self.dir, name)[0])
        return mean_image(parts)

    def get_per_channel_mean(self, names: Sequence[str] = _PARTS) -> np.ndarray:
        """Return the mean red, green and blue of all images of the parts in ``names``, float32 of shape (3,)."""
        return self.get_per_pixel_mean(names).mean(axis=(0, 1))

    def get_label_names(self) -> list[str]:
        """Return the names of the classes, from the files."""
        return read_label_names(_FORMATS[self.cifar_classnum], self.dir)


@check_arguments
class Cifar10(CifarBase):
    """CIFAR-10; see `CifarBase`."""

    def __init__(
        self, train_or_test: str, shuffle: bool | None = None, dir: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(train_or_test, shuffle, dir, 10)


@check_arguments
class Cifar100(CifarBase):
    """CIFAR-100; see `CifarBase`."""

    def __init__(
        self, train_or_test: str, shuffle: bool | None = None, dir: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(train_or_test, shuffle, dir, 100)


@dataclass(frozen=True)
class CifarFormat:
    """The files of the two versions of one of the data sets."""

    binary_dir: str
    python_dir: str
    # By part: the files of the binary and of the Python version, and the number of images in each.
    files: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]]
    label_bytes: int
    """The bytes before each image in a binary file; the last one is the label."""
    label_key: str
    names_files: tuple[str, str]
    names_key: str
    source: str
    num_classes: int


CIFAR10 = CifarFormat(
    binary_dir="cifar-10-batches-bin",
    python_dir="cifar-10-batches-py",
    files={
        "train": (tuple(f"{name}.bin" for name in _BATCHES), _BATCHES, 10000),
        "test": (("test_batch.bin",), ("test_batch",), 10000),
    },
    label_bytes=1,
    label_key="labels",
    names_files=("batches.meta.txt", "batches.meta"),
    names_key="label_names",
    source="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    num_classes=10,
)


CIFAR100 = CifarFormat(
    binary_dir="cifar-100-binary",
    python_dir="cifar-100-python",
    files={"train": (("train.bin",), ("train",), 50000), "test": (("test.bin",), ("test",), 10000)},
    label_bytes=2,
    label_key="fine_labels",
    names_files=("fine_label_names.txt", "meta"),
    names_key="fine_label_names",
    source="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    num_classes=100,
)


_FORMATS = {10: CIFAR10, 100: CIFAR100}


def read_part(form: CifarFormat, folder: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images, uint8 of shape (N, 32, 32, 3) in red, green and blue, and the labels of a part.

    Raises:
        InputError: A file is missing, or differs from the published one.
    """
    binary_names, python_names, count = form.files[part]
    images, labels = [], []
    for binary_name, python_name in zip(binary_names, python_names, strict=True):
        path = find_file(folder, _paths(form, binary_name, python_name), form.source)
        read = _read_binary if path.endswith(".bin") else _read_pickle
        pixels, found = read(form, path, count)
        if found.max() >= form.num_classes:
            raise InputError(f"{path} has the label {found.max()}: expected 0 to {form.num_classes - 1}")
        images.append(pixels.reshape(count, _CHANNELS, _SIDE, _SIDE).transpose(0, 2, 3, 1))
        labels.append(found)
    return np.concatenate(images), np.concatenate(labels)


def read_label_names(form: CifarFormat, folder: str) -> list[str]:
    """Return the names of the classes; raise InputError if the file is missing or has another number of them."""
    path = find_file(folder, _paths(form, *form.names_files), form.source)
    names = read_lines(path) if path.endswith(".txt") else load_arrays(path).get(form.names_key)
    if not isinstance(names, list) or len(names) != form.num_classes:
        found = f"{len(names)} names" if isinstance(names, list) else f"no {form.names_key}"
        raise InputError(f"{path} has {found} of classes: expected {form.num_classes}")
    return names


def _paths(form: CifarFormat, binary_name: str, python_name: str) -> list[str]:
    """Return the possible paths of a file in the user's directory."""
    binary = [os.path.join(form.binary_dir, binary_name), binary_name]
    return [*binary, os.path.join(form.python_dir, python_name), python_name]


def _read_binary(form: CifarFormat, path: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels and labels of a file of records."""
    record = form.label_bytes + _IMAGE_SIZE
    content = np.frombuffer(read_bytes(path, count * record), np.uint8).reshape(count, record)
    return content[:, form.label_bytes :], content[:, form.label_bytes - 1]


def _read_pickle(form: CifarFormat, path: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels and labels of a pickle."""
    content = load_arrays(path)
    pixels, labels = content.get("data"), content.get(form.label_key)
    are_labels = isinstance(labels, list) and all(type(label) is int and 0 <= label < 256 for label in labels)
    found = pixels.shape if isinstance(pixels, np.ndarray) else None
    num_labels = len(labels) if are_labels else None  # type: ignore[arg-type]
    if found != (count, _IMAGE_SIZE) or num_labels != count:
        given = f"data of shape {found} and {num_labels} {form.label_key}"
        raise InputError(f"{path} has {given}: expected ({count}, {_IMAGE_SIZE}) and {count}")
    return pixels, np.array(labels, np.uint8)  # type: ignore[return-value]


def load_arrays(path: str) -> dict[str, Any]:
    """Return the dict in a pickle of Python 2 or 3, with text as str and arrays of unsigned bytes as arrays.

    Raises:
        InputError: The file has another content, or is damaged.
    """
    try:
        with open(path, "rb") as file:
            found = pickled_arrays.loads(file.read(), encoding="bytes")
    except Exception as error:
        # Damaged pickles raise almost anything.
        text = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]
        raise InputError(f"{path} cannot be read as a pickle of arrays: {text}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} has a {type(found).__name__}: expected a dict")
    return {_as_text(key): _checked(path, key, value) for key, value in found.items()}


def _as_text(key: object) -> str:
    """Return a key or a name as text; in Python 2 it is bytes."""
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _checked(path: str, key: object, value: Any) -> Any:
    """Return an array of unsigned bytes, or another value with text in lists as str."""
    if isinstance(value, list):
        return [_as_text(member) if isinstance(member, bytes) else member for member in value]
    if isinstance(value, np.ndarray) and value.dtype != np.uint8:
        given = f"shape {value.shape}, dtype {value.dtype.str[1:]!r}"
        raise InputError(f"{path} has no array of unsigned bytes in {_as_text(key)!r}: {given}")
    return value
