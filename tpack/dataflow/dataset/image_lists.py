"""Flows over lists of image files with labels."""

import os
from collections.abc import Sequence
from typing import Any

from tpack.dataflow.images import read_image
from tpack.dataflow.indexed import IndexedDataFlow
from tpack.errors import InputError

_SUFFIXES = (".jpeg", ".jpg", ".png")


class LabelledFiles(IndexedDataFlow):
    """Yield ``[path, label]``."""

    def __init__(self, files: Sequence[tuple[str, int]], shuffle: bool) -> None:
        """Make the flow.

        Args:
            files: paths and labels.
            shuffle: whether each pass has a new order.
        """
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


def list_class_dirs(folder: str, source: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the names of the directories in one, in alphabetical order, and the images in them.

    Args:
        folder: a directory with a directory for each class.
        source: where to get the images, for the message.

    Returns:
        The names of the classes; the paths of the images and the places of their classes among the names.

    Raises:
        InputError: There is no such directory, or no image in those in it.
    """
    if not os.path.isdir(folder):
        raise InputError(
            f"{folder} is no directory: get the images from {source} and unpack them there; nothing is downloaded"
        )
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    images = [
        (os.path.join(folder, name, file), label)
        for label, name in enumerate(names)
        for file in sorted(os.listdir(os.path.join(folder, name)))
        if file.lower().endswith(_SUFFIXES)
    ]
    if not images:
        raise InputError(f"{folder} has {len(names)} directories and no image in them: get the images from {source}")
    return names, images
