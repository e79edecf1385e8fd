"""Photographs of places: 256 x 256 pixels in colour, 365 classes."""

import os

from tpack.dataflow.dataset.files import check_name
from tpack.dataflow.dataset.image_lists import LabelledImageFiles, list_class_dirs

_SOURCE = "http://data.csail.mit.edu/places/places365/places365standard_easyformat.tar"


class Places365Standard(LabelledImageFiles):
    """Yield ``[image, label]``: uint8 of shape (256, 256, 3) in blue, green and red, and the number of the class.

    The directory is the published one in the "easy" structure, ``places365_standard``: ``train`` and ``val`` have a
    directory for each class. The classes are these in alphabetical order.
    """

    def __init__(self, dir: str | os.PathLike[str], name: str, shuffle: bool | None = None) -> None:
        """Make the flow.

        Args:
            dir: the directory.
            name: ``"train"`` or ``"val"``.
            shuffle: whether each pass has a new order; None does for training.

        Raises:
            InputError: There are no images.
        """
        self.name = check_name(self, name, ("train", "val"))
        self._label_names, images = list_class_dirs(os.path.join(os.path.abspath(os.fspath(dir)), name), _SOURCE)
        super().__init__(images, name == "train" if shuffle is None else shuffle)

    def get_label_names(self) -> list[str]:
        """Return the names of the classes, which are those of the directories."""
        return list(self._label_names)
