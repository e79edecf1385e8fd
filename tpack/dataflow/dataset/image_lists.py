"""Images with labels, in files or in memory, and two data sets in directories of image files."""

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tpack.dataflow.dataset.files import check_name, find_file, read_lines
from tpack.dataflow.images import read_image
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import DataPointError, InputError
from tpack.utils.validation import check_arguments, check_count, shown

Labels = TypeVar("Labels", bound=ArrayLike)
_SUFFIXES = (".jpeg", ".jpg", ".png")
_PLACES_SOURCE = "http://data.csail.mit.edu/places/places365/places365standard_easyformat.tar"
_TINY_IMAGENET_SOURCE = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"


class LabelledFiles(IndexedDataFlow):
    """Yield ``[path, label]`` of a list of them."""

    def __init__(self, files: Sequence[tuple[str, int]], shuffle: bool) -> None:
        super().__init__(bool(shuffle))
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def _read(self, index: int) -> list[Any]:
        return list(self.files[index])


class LabelledImageFiles(LabelledFiles):
    """Yield ``[image, label]``: uint8 of shape (H, W, 3) in blue, green and red, read when it is yielded."""

    def _read(self, index: int) -> list[Any]:
        path, label = self.files[index]
        return [read_image(path), label]


class LabelledImages(IndexedDataFlow):
    """Yield ``[image, label]``: a copy of an image from an array of shape (N, ...), and an integer from one of (N,)."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, shuffle: bool) -> None:
        super().__init__(bool(shuffle))
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def _read(self, index: int) -> list[Any]:
        return [self.images[index].copy(), int(self.labels[index])]


class UnitImages(LabelledImages):
    """Images stored as integers and yielded as float32, from 0 to 1.

    Attributes:
        images: all of them as float32, made when it is first used.
        stored: all of them as integers.
    """

    _greatest = 255
    _more_axes: tuple[int, ...] = ()
    """Sizes of more axes of `images`, as they are in tensorpack."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, shuffle: bool) -> None:
        super().__init__(images, labels, shuffle)
        self.stored = self.__dict__.pop("images")

    @cached_property
    def images(self) -> np.ndarray:  # type: ignore[override]
        """Return all images as float32, from 0 to 1."""
        return self._as_unit(self.stored).reshape(self.stored.shape + self._more_axes)

    def _read(self, index: int) -> list[Any]:
        return [self._as_unit(self.stored[index]), int(self.labels[index])]

    def _as_unit(self, stored: np.ndarray) -> np.ndarray:
        return stored.astype(np.float32) / np.float32(self._greatest)


@check_arguments
class Places365Standard(LabelledImageFiles):
    """Yield ``[image, label]``: uint8 of shape (256, 256, 3) in blue, green and red, and the number of the class.

    The directory is the published one in the "easy" structure, ``places365_standard``: ``train`` and ``val`` have a
    directory for each class. The classes are those of ``train`` in alphabetical order.

    Args:
        dir: the directory.
        name: ``"train"`` or ``"val"``.
        shuffle: None is True for training only.

    Raises:
        InputError: There are no images, or no directories that number the classes.
    """

    def __init__(self, dir: str | os.PathLike[str], name: str, shuffle: bool | None = None) -> None:
        self.name = check_name(self, name, ("train", "val"))
        self.dir = os.path.abspath(os.fspath(dir))
        self._label_names = class_names(self.dir, name, _PLACES_SOURCE, count=365)
        images = list_class_dirs(os.path.join(self.dir, name), self._label_names, _PLACES_SOURCE)
        super().__init__(images, name == "train" if shuffle is None else shuffle)

    def get_label_names(self) -> list[str]:
        """Return the names of the classes, those of the directories."""
        return list(self._label_names)


@check_arguments
class TinyImageNet(LabelledImageFiles):
    """Yield ``[image, label]``: uint8 of shape (64, 64, 3) in blue, green and red, and the number of the class.

    The classes are the synsets of ``wnids.txt`` in alphabetical order. The directory is the published one,
    ``tiny-imagenet-200``; its test images have no labels and are not read.

    Args:
        dir: the directory.
        name: ``"train"`` or ``"val"``.
        shuffle: None is True for training only.

    Raises:
        InputError: A file is missing, or differs from the published one.
    """

    def __init__(self, dir: str | os.PathLike[str], name: str, shuffle: bool | None = None) -> None:
        check_name(self, name, ("train", "val"))
        self.dir = os.path.abspath(os.fspath(dir))
        self.name = name
        synsets = sorted(read_lines(find_file(self.dir, ["wnids.txt"], _TINY_IMAGENET_SOURCE)))
        label_of = {synset: label for label, synset in enumerate(synsets)}
        images = _list_train(self.dir, label_of) if name == "train" else _list_val(self.dir, label_of)
        super().__init__(images, name == "train" if shuffle is None else shuffle)


@check_arguments
def check_labels(labels: Labels, num_classes: int) -> Labels:
    """Return labels after checking that each is the number of a class.

    A model may not notice others: ``tf.one_hot`` makes zeros of them, ``tf.nn.in_top_k`` wrong guesses, and on a GPU a
    cross entropy is NaN. For a flow, use this in a `MapDataComponent`.

    Args:
        labels: integers from 0 on, of any shape.
        num_classes: the number of classes of the model.

    Raises:
        DataPointError: They are not integers, or one is out of range; the message has their range.

    Example:
        MapDataComponent(ds, lambda labels: check_labels(labels, 10), 1)
    """
    check_count("check_labels", "num_classes", num_classes)
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise DataPointError(f"check_labels got labels={shown(labels)}: expected an array of integers") from error
    if array.dtype.kind not in "iu" and array.size:
        raise DataPointError(f"check_labels got labels of dtype {array.dtype}: expected integers")
    if array.size and not (array.min() >= 0 and array.max() < num_classes):
        given = f"labels from {array.min()} to {array.max()}"
        raise DataPointError(f"check_labels got {given}: expected 0 to {num_classes - 1} for {num_classes} classes")
    return labels


def list_class_dirs(folder: str, names: Sequence[str], source: str) -> list[tuple[str, int]]:
    """Return the images in directories of classes, listed by number, and the numbers of their classes.

    A class may lack a directory; its number stays its own.

    Raises:
        InputError: There is no such directory, one in it is not of a class, or there is no image from ``source``.
    """
    inside = _class_dirs(folder, source)
    label_of = {name: label for label, name in enumerate(names)}
    unknown = [name for name in inside if name not in label_of]
    if unknown:
        some = f"{', '.join(unknown[:3])}{', ...' if len(unknown) > 3 else ''}"
        raise InputError(f"{folder} has {len(unknown)} directories outside of the {len(names)} classes: {some}")
    images = [
        (os.path.join(folder, name, file), label_of[name])
        for name in inside
        for file in sorted(os.listdir(os.path.join(folder, name)))
        if file.lower().endswith(_SUFFIXES)
    ]
    if not images:
        raise InputError(f"{folder} has {len(inside)} directories and no image in them: get the images from {source}")
    return images


def class_names(root: str, part: str, source: str, *, count: int) -> list[str]:
    """Return the names of the classes of all parts, in the order of their numbers.

    They are the directories of ``train`` in alphabetical order, for every part: another part may lack a class, and
    those after it would get other numbers. Without ``train``, a part is used if it has all ``count`` classes.

    Raises:
        InputError: Neither is there.
    """
    has_train = os.path.isdir(os.path.join(root, "train"))
    names = _class_dirs(os.path.join(root, "train" if has_train else part), source)
    if not has_train and len(names) != count:
        raise InputError(
            f"{root} has no train, whose directories number the classes, and {part} has {len(names)} directories: "
            f"expected train, or all {count} classes"
        )
    return names


def _class_dirs(folder: str, source: str) -> list[str]:
    """Return the names of the directories in one, in alphabetical order, but for hidden ones."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is not a directory: unpack the images of {source} there; nothing is downloaded")
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def mean_image(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean over all images of several arrays of shape (N, ...), as float32."""
    total: Any = sum(part.sum(axis=0, dtype=np.float64) for part in parts)
    return (total / sum(map(len, parts))).astype(np.float32)


def _list_train(folder: str, label_of: dict[str, int]) -> list[tuple[str, int]]:
    images: list[tuple[str, int]] = []
    for synset, label in label_of.items():
        inside = os.path.join(folder, "train", synset, "images")
        found = sorted(os.listdir(inside)) if os.path.isdir(inside) else []
        if not found:
            source = _TINY_IMAGENET_SOURCE
            raise InputError(f"{inside} is missing or empty: get the images from {source}; nothing is downloaded")
        images += [(os.path.join(inside, file), label) for file in found]
    if not images:
        raise InputError(f"{os.path.join(folder, 'wnids.txt')} is empty")
    return images


def _list_val(folder: str, label_of: dict[str, int]) -> list[tuple[str, int]]:
    path = find_file(folder, [os.path.join("val", "val_annotations.txt")], _TINY_IMAGENET_SOURCE)
    images = []
    for number, line in enumerate(read_lines(path), 1):
        file, _, rest = line.partition("\t")
        synset = rest.split("\t")[0]
        if synset not in label_of:
            raise InputError(f"{path}, line {number} is {line[:80]!r}: expected a file and a synset of wnids.txt")
        images.append((os.path.join(folder, "val", "images", file), label_of[synset]))
    if not images:
        raise InputError(f"{path} is empty")
    return images
