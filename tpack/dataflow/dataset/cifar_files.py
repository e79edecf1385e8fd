"""The files of CIFAR-10 and CIFAR-100, in the two versions that are published.

The binary version is taken where it is there: it cannot hold anything but images and labels. The one that is called the
Python version is made of pickles, which are read by `tpack.dataflow.dataset.array_unpickler`.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.dataset.array_unpickler import load_arrays
from tpack.dataflow.dataset.files import find_file, read_bytes, read_lines
from tpack.errors import InputError

_CHANNELS, _SIDE = 3, 32
_IMAGE_SIZE = _CHANNELS * _SIDE * _SIDE


@dataclass(frozen=True)
class CifarFormat:
    """What the two versions of one of the data sets look like."""

    binary_dir: str
    python_dir: str
    # By part: the files of the binary version and of the other one, and how many images each of them holds.
    files: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]]
    label_bytes: int
    """The bytes before each image in a binary file; the last one is the label."""
    label_key: str
    names_files: tuple[str, str]
    names_key: str
    source: str
    num_classes: int


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
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


def read_part(form: CifarFormat, folder: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images, uint8 of shape (N, 32, 32, 3) in red, green and blue, and the labels of a part.

    Args:
        form: which data set.
        folder: the directory that holds one of the two versions, or is one.
        part: ``"train"`` or ``"test"``.

    Raises:
        InputError: A file is missing, or its content is not what was published.
    """
    binary_names, python_names, count = form.files[part]
    images, labels = [], []
    for binary_name, python_name in zip(binary_names, python_names, strict=True):
        path = find_file(folder, _places(form, binary_name, python_name), form.source)
        read = _read_binary if path.endswith(".bin") else _read_pickle
        pixels, found = read(form, path, count)
        if found.max() >= form.num_classes:
            raise InputError(f"{path} holds the label {found.max()}: wanted 0 to {form.num_classes - 1}")
        images.append(pixels.reshape(count, _CHANNELS, _SIDE, _SIDE).transpose(0, 2, 3, 1))
        labels.append(found)
    return np.concatenate(images), np.concatenate(labels)


def read_label_names(form: CifarFormat, folder: str) -> list[str]:
    """Return the names of the classes.

    Raises:
        InputError: The file is missing, or holds another number of names.
    """
    path = find_file(folder, _places(form, *form.names_files), form.source)
    names = read_lines(path) if path.endswith(".txt") else load_arrays(path).get(form.names_key)
    if not isinstance(names, list) or len(names) != form.num_classes:
        found = f"{len(names)} names" if isinstance(names, list) else f"no {form.names_key}"
        raise InputError(f"{path} holds {found} of classes: wanted {form.num_classes}")
    return names


def _places(form: CifarFormat, binary_name: str, python_name: str) -> list[str]:
    """Return where a file may be, from the directory that the user gave."""
    binary = [os.path.join(form.binary_dir, binary_name), binary_name]
    return [*binary, os.path.join(form.python_dir, python_name), python_name]


def _read_binary(form: CifarFormat, path: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels and labels of a file of records, each of labels and an image."""
    record = form.label_bytes + _IMAGE_SIZE
    content = np.frombuffer(read_bytes(path, count * record), np.uint8).reshape(count, record)
    return content[:, form.label_bytes :], content[:, form.label_bytes - 1]


def _read_pickle(form: CifarFormat, path: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels and labels of a pickle."""
    content = load_arrays(path)
    pixels, labels = content.get("data"), _as_labels(content.get(form.label_key))
    found = pixels.shape if isinstance(pixels, np.ndarray) else None
    if not isinstance(pixels, np.ndarray) or found != (count, _IMAGE_SIZE) or labels is None or len(labels) != count:
        num_labels = None if labels is None else len(labels)
        raise InputError(
            f"{path} holds data of shape {found} and {num_labels} {form.label_key}: wanted ({count}, {_IMAGE_SIZE}) "
            f"and {count}"
        )
    return pixels, labels


def _as_labels(labels: Any) -> np.ndarray | None:
    """Return a list of labels as an array, or None if it is none."""
    is_list = isinstance(labels, list) and all(type(label) is int and 0 <= label < 256 for label in labels)
    return np.array(labels, np.uint8) if is_list else None
