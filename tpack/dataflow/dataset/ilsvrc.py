"""The photographs of ILSVRC 2012, which is what "ImageNet" mostly means: a thousand classes."""

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.dataset.files import check_name
from tpack.dataflow.dataset.ilsvrc_meta import META_SOURCE, PARTS, ILSVRCMeta, check_structure
from tpack.dataflow.dataset.image_lists import LabelledFiles, list_class_dirs
from tpack.dataflow.images import read_image
from tpack.errors import InputError
from tpack.utils import logger

_SOURCE = "https://image-net.org/challenges/LSVRC/2012"
_BOX_EDGES = ("xmin", "ymin", "xmax", "ymax")


class ILSVRC12Files(LabelledFiles):
    """Yield ``[path, label]`` of the images, as `ILSVRC12` does of their content.

    The directory holds the unpacked archives: ``train`` with a directory for each synset, ``val`` and ``test`` with all
    images in one ("original"), or ``val`` with a directory for each synset too ("train").
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],
        name: str,
        meta_dir: str | os.PathLike[str] | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        """Make the flow.

        Args:
            dir: the directory that holds ``train`` and ``val``.
            name: ``"train"``, ``"val"`` or ``"test"``.
            meta_dir: where the lists are, see `ILSVRCMeta`. If None, and they are not in their usual place, the images
                of a directory with synsets are listed, and the classes are the synsets in alphabetical order, which
                for all thousand is the order of the lists.
            shuffle: whether each pass has a new order; None does for training.
            dir_structure: ``"original"`` or ``"train"``, of this part; None looks at the directory.

        Raises:
            ConfigError: There is no such part or structure.
            InputError: The directory, the lists or the first of the images are missing.
        """
        check_name(self, name, PARTS)
        self.dir = os.path.abspath(os.fspath(dir))
        self.name = name
        self.full_dir = os.path.join(self.dir, name)
        if not os.path.isdir(self.full_dir):
            raise InputError(
                f"{self.full_dir} is no directory: get the images from {_SOURCE} and unpack them there; nothing is "
                "downloaded"
            )
        structure = check_structure(self, dir_structure, self.full_dir)
        meta = ILSVRCMeta(meta_dir)
        if meta_dir is None and structure == "train" and not os.path.isdir(meta.dir):
            synsets, images = list_class_dirs(self.full_dir, _SOURCE)
            logger.info("%s: %d synsets, numbered in alphabetical order", self.full_dir, len(synsets))
        else:
            listed = meta.get_image_list(name, structure)
            images = [(os.path.join(self.full_dir, path), label) for path, label in listed]
            _check_first(images)
        super().__init__(images, name == "train" if shuffle is None else shuffle)


class ILSVRC12(ILSVRC12Files):
    """Yield ``[image, label]``: uint8 of shape (H, W, 3) in blue, green and red, and the number of the class.

    A file is read when it is yielded. For speed, read the files in parallel: `ILSVRC12Files` yields their paths.
    """

    def _read(self, index: int) -> list[Any]:
        path, label = self.files[index]
        return [read_image(path), label]

    @staticmethod
    def get_training_bbox(
        bbox_dir: str | os.PathLike[str], imglist: Sequence[tuple[str, int]]
    ) -> list[np.ndarray | None]:
        """Return the box of the first object in each image, or None where there is no file for it.

        Args:
            bbox_dir: the directory of the annotations, with a directory for each synset.
            imglist: paths of images and their classes, as ``get_image_list("train")`` returns them.

        Returns:
            Boxes (xmin, ymin, xmax, ymax), float32 of shape (4,).

        Raises:
            InputError: A file is no annotation with a box.
        """
        paths = [os.path.join(bbox_dir, f"{os.path.splitext(path)[0]}.xml") for path, _ in imglist]
        return [_read_box(path) if os.path.isfile(path) else None for path in paths]


def _check_first(images: Sequence[tuple[str, int]]) -> None:
    """Check that some images of a list are there, so that a wrong directory is noticed at once."""
    for path, _ in images[:10]:
        if not os.path.isfile(path):
            raise InputError(
                f"{path} is missing, and is in the list: wanted the images of {_SOURCE} and the lists of "
                f"{META_SOURCE}; is dir_structure right?"
            )


def _read_box(path: str) -> np.ndarray:
    """Return the box of the first object that an annotation holds."""
    try:
        root = ElementTree.parse(path).getroot()
        edges = [root.findtext(f"object/bndbox/{edge}") for edge in _BOX_EDGES]
        return np.array([float(edge) for edge in edges if edge is not None], np.float32).reshape(4)
    except (ElementTree.ParseError, ValueError, OSError) as error:
        raise InputError(f"{path} holds no object with a box of {', '.join(_BOX_EDGES)}: {error}") from error
