"""Small photographs of ImageNet: 64 x 64 pixels in colour, two hundred classes."""

import os

from tpack.dataflow.dataset.files import check_name, find_file, read_lines
from tpack.dataflow.dataset.image_lists import LabelledImageFiles
from tpack.errors import InputError

_SOURCE = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"


class TinyImageNet(LabelledImageFiles):
    """Yield ``[image, label]``: uint8 of shape (64, 64, 3) in blue, green and red, and the number of the class.

    The classes are the synsets of ``wnids.txt`` in alphabetical order. The directory is the published one,
    ``tiny-imagenet-200``; its images for testing have no labels and are not read.
    """

    def __init__(self, dir: str | os.PathLike[str], name: str, shuffle: bool | None = None) -> None:
        """Make the flow.

        Args:
            dir: the directory.
            name: ``"train"`` or ``"val"``.
            shuffle: whether each pass has a new order; None does for training.

        Raises:
            InputError: A file is missing, or its content is not what was published.
        """
        check_name(self, name, ("train", "val"))
        self.dir = os.path.abspath(os.fspath(dir))
        self.name = name
        synsets = sorted(read_lines(find_file(self.dir, ["wnids.txt"], _SOURCE)))
        label_of = {synset: label for label, synset in enumerate(synsets)}
        images = _list_train(self.dir, label_of) if name == "train" else _list_val(self.dir, label_of)
        super().__init__(images, name == "train" if shuffle is None else shuffle)


def _list_train(folder: str, label_of: dict[str, int]) -> list[tuple[str, int]]:
    """Return the images in the directories of the synsets."""
    images: list[tuple[str, int]] = []
    for synset, label in label_of.items():
        inside = os.path.join(folder, "train", synset, "images")
        found = sorted(os.listdir(inside)) if os.path.isdir(inside) else []
        if not found:
            raise InputError(f"{inside} is missing or empty: get the images from {_SOURCE}; nothing is downloaded")
        images += [(os.path.join(inside, file), label) for file in found]
    if not images:
        raise InputError(f"{os.path.join(folder, 'wnids.txt')} is empty")
    return images


def _list_val(folder: str, label_of: dict[str, int]) -> list[tuple[str, int]]:
    """Return the images that the list of annotations names."""
    path = find_file(folder, [os.path.join("val", "val_annotations.txt")], _SOURCE)
    images = []
    for number, line in enumerate(read_lines(path), 1):
        file, _, rest = line.partition("\t")
        synset = rest.split("\t")[0]
        if synset not in label_of:
            raise InputError(f"{path}, line {number}: {line[:80]!r} has no synset of wnids.txt after the file")
        images.append((os.path.join(folder, "val", "images", file), label_of[synset]))
    if not images:
        raise InputError(f"{path} is empty")
    return images
