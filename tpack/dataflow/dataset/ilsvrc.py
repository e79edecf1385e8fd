"""The photographs of ILSVRC 2012, usually called "ImageNet", in a thousand classes numbered by Caffe's lists.

The mean image is Caffe's: a message of protocol buffers, of which four fields are read.
"""

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, find_file, read_bytes, read_lines
from tpack.dataflow.dataset.image_lists import LabelledFiles, class_names, list_class_dirs
from tpack.dataflow.images import read_image
from tpack.dataflow.opencv import opencv
from tpack.errors import InputError
from tpack.utils import logger
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)

_SOURCE = "https://image-net.org/challenges/LSVRC/2012"
_BOX_EDGES = ("xmin", "ymin", "xmax", "ymax")
_META_SOURCE = "http://dl.caffe.berkeleyvision.org/caffe_ilsvrc12.tar.gz"
_NUM_CLASSES = 1000
_PARTS = ("train", "val", "test")
_STRUCTURES = ("original", "train")
# The fields of a mean image: channels, height, width, and the values.
_CHANNELS, _HEIGHT, _WIDTH, _DATA = 2, 3, 4, 5
# The kinds of fields.
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


@check_arguments
class ILSVRC12Files(LabelledFiles):
    """Yield ``[path, label]`` of the images of `ILSVRC12`.

    The directory holds the unpacked archives: ``train`` with a directory for each synset, ``val`` and ``test`` with all
    images in one ("original"), or ``val`` with a directory for each synset too ("train").

    Args:
        dir: the directory with ``train`` and ``val``.
        name: ``"train"``, ``"val"`` or ``"test"``.
        meta_dir: the directory of the lists, see `ILSVRCMeta`. Without the list of this part the images in directories
            of synsets are listed, with classes by ``synsets.txt``, else by the alphabetical order of ``train``, the
            same for all thousand.
        shuffle: whether each pass has a new order; None is True for training only.
        dir_structure: ``"original"`` or ``"train"``, of this part; None looks at the directory.

    Raises:
        ConfigError: There is no such part or structure.
        InputError: The directory, the lists or the first of the images are missing, or a synset has no number.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],
        name: str,
        meta_dir: str | os.PathLike[str] | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        check_name(self, name, _PARTS)
        self.dir = os.path.abspath(os.fspath(dir))
        self.name = name
        self.full_dir = os.path.join(self.dir, name)
        if not os.path.isdir(self.full_dir):
            given = f"{self.full_dir} is not a directory"
            raise InputError(f"{given}: unpack the images of {_SOURCE} there; nothing is downloaded")
        if dir_structure is None:
            structure = ILSVRCMeta.guess_dir_structure(self.full_dir)
        else:
            structure = check_name(self, dir_structure, _STRUCTURES, "dir_structure")
        meta = ILSVRCMeta(meta_dir)
        if structure == "train" and not meta.has(f"{name}.txt") and (meta_dir is None or meta.has("synsets.txt")):
            images = list_class_dirs(self.full_dir, self._synsets(meta), _SOURCE)
        else:
            listed = meta.get_image_list(name, structure)
            images = [(os.path.join(self.full_dir, path), label) for path, label in listed]
            _check_first(images)
        super().__init__(images, name == "train" if shuffle is None else shuffle)

    def _synsets(self, meta: "ILSVRCMeta") -> list[str]:
        """Return the synsets in the order of their numbers, which is that of all parts."""
        if meta.has("synsets.txt"):
            return list(meta.get_synset_1000().values())
        synsets = class_names(self.dir, self.name, _SOURCE, count=_NUM_CLASSES)
        logger.info("%s: %d synsets, numbered in alphabetical order", self.dir, len(synsets))
        return synsets


class ILSVRC12(ILSVRC12Files):
    """Yield ``[image, label]``: uint8 of shape (H, W, 3) in blue, green and red, and the number of the class.

    A file is read when it is yielded. For speed, read the files of `ILSVRC12Files` in parallel.
    """

    def _read(self, index: int) -> list[Any]:
        path, label = self.files[index]
        return [read_image(path), label]

    @staticmethod
    def get_training_bbox(
        bbox_dir: str | os.PathLike[str], imglist: Sequence[tuple[str, int]]
    ) -> list[np.ndarray | None]:
        """Return the box of the first object in each image, or None without a file for it.

        Args:
            bbox_dir: the directory of the annotations, with a directory for each synset.
            imglist: paths of images and their classes, from ``get_image_list("train")``.

        Shapes:
            Boxes (xmin, ymin, xmax, ymax), float32 of shape (4,).

        Raises:
            InputError: A file is not an annotation with a box.
        """
        paths = [os.path.join(bbox_dir, f"{os.path.splitext(path)[0]}.xml") for path, _ in imglist]
        return [_read_box(path) if os.path.isfile(path) else None for path in paths]


@check_arguments
class ILSVRCMeta:
    """The content of ``caffe_ilsvrc12.tar.gz``: synsets.txt, synset_words.txt, train.txt, val.txt, test.txt.

    By default the directory is ``ilsvrc_metadata`` below `get_dataset_path()`.
    """

    def __init__(self, dir: str | os.PathLike[str] | None = None) -> None:
        self.dir = data_dir(dir, "ilsvrc_metadata")

    def get_synset_1000(self) -> dict[int, str]:
        """Return the synset, such as ``"n01440764"``, by the number of its class."""
        return dict(enumerate(self._lines("synsets.txt")))

    def get_synset_words_1000(self) -> dict[int, str]:
        """Return the synset and its words by the number of the class."""
        return dict(enumerate(self._lines("synset_words.txt")))

    def get_image_list(self, name: str, dir_structure: str = "original") -> list[tuple[str, int]]:
        """Return the files of a part, as paths in its directory, and their classes.

        With ``dir_structure="train"`` the images of each part are in directories of synsets, with ``"original"`` of
        ``train``.

        Raises:
            ConfigError: There is no such part or structure.
            InputError: The file is missing, a line is not a path and a class, or ``synsets.txt`` has another synset as
                that class, or none.
        """
        check_name(self, name, _PARTS)
        check_name(self, dir_structure, _STRUCTURES, "dir_structure")
        file = f"{name}.txt"
        path, is_flat = os.path.join(self.dir, file), name == "train" or dir_structure == "original"
        images = [_parse(path, number, line) for number, line in enumerate(self._lines(file), 1)]
        if is_flat and not self.has("synsets.txt"):
            return images
        synsets = self.get_synset_1000()
        if unknown := sorted({label for _, label in images} - set(synsets)):
            raise InputError(f"{path} has the class {unknown[0]}: expected one of the {len(synsets)} of synsets.txt")
        if name == "train":
            _check_dirs(path, images, synsets)
        return images if is_flat else [(os.path.join(synsets[label], image), label) for image, label in images]

    def has(self, file: str) -> bool:
        """Tell whether one of the lists exists."""
        return os.path.isfile(os.path.join(self.dir, file))

    def get_per_pixel_mean(self, size: tuple[int, int] | None = None) -> np.ndarray:
        """Return the mean image, float32 of shape (256, 256, 3), or resized to ``size``, in blue, green and red.

        Raises:
            InputError: ``imagenet_mean.binaryproto`` is missing or damaged.
        """
        path = find_file(self.dir, ["imagenet_mean.binaryproto"], _META_SOURCE)
        mean = np.ascontiguousarray(_decode_mean_blob(path, read_bytes(path)).transpose(1, 2, 0))
        return mean if size is None else opencv().resize(mean, (size[1], size[0]))

    @staticmethod
    def guess_dir_structure(dir: str | os.PathLike[str]) -> str:
        """Return "train" if a directory has directories, else "original"; raise InputError for none or an empty one."""
        folder = os.fspath(dir)
        try:
            with os.scandir(folder) as entries:
                first = next(iter(sorted(entries, key=lambda entry: entry.name)), None)
        except OSError as error:
            raise InputError(f"{folder} cannot be listed: {error}") from error
        if first is None:
            raise InputError(f"{folder} is empty: expected images, or directories of images")
        return "train" if first.is_dir() else "original"

    def _lines(self, file: str) -> list[str]:
        """Return the lines of a file, at least one."""
        path = find_file(self.dir, [file], _META_SOURCE)
        lines = read_lines(path)
        if not lines:
            raise InputError(f"{path} is empty")
        return lines


def _check_dirs(path: str, images: Sequence[tuple[str, int]], synsets: dict[int, str]) -> None:
    """Check that the directories in a list are the synsets of its classes."""
    for folder, label in sorted({(os.path.dirname(file), label) for file, label in images}):
        if synsets[label] != folder:
            raise InputError(f"{path} has {folder!r} as class {label}: expected {synsets[label]!r} of synsets.txt")


def _check_first(images: Sequence[tuple[str, int]]) -> None:
    """Check that some images of a list exist, so that a wrong directory is noticed at once."""
    for path, _ in images[:10]:
        if not os.path.isfile(path):
            raise InputError(
                f"{path} of the list is missing: expected the images of {_SOURCE} and the lists of {_META_SOURCE}; "
                "check dir_structure"
            )


def _read_box(path: str) -> np.ndarray:
    try:
        root = ElementTree.parse(path).getroot()
        edges = [root.findtext(f"object/bndbox/{edge}") for edge in _BOX_EDGES]
        return np.array([float(edge) for edge in edges if edge is not None], np.float32).reshape(4)
    except (ElementTree.ParseError, ValueError, OSError) as error:
        raise InputError(f"{path} has no object with a box of {', '.join(_BOX_EDGES)}: {error}") from error


def _parse(path: str, number: int, line: str) -> tuple[str, int]:
    name, _, label = line.rpartition(" ")
    if not name or not label.isdecimal():
        raise InputError(f"{path}, line {number} is {line[:80]!r}: expected a path and a class")
    return name.strip(), int(label)


def _decode_mean_blob(path: str, content: bytes) -> np.ndarray:
    """Return the values, float32 of shape (channels, height, width); raise InputError for another message or number."""
    sizes = {_CHANNELS: 0, _HEIGHT: 0, _WIDTH: 0}
    values: list[bytes] = []
    try:
        position = 0
        while position < len(content):
            tag, position = _varint(content, position)
            field, kind = tag >> 3, tag & 7
            number, payload, position = _field(content, position, kind)
            if field in sizes and kind == _VARINT:
                sizes[field] = number
            elif field == _DATA:
                values.append(payload)
    except (IndexError, ValueError) as error:
        raise InputError(f"{path} is not a message with an image: {error}") from error
    shape = (sizes[_CHANNELS], sizes[_HEIGHT], sizes[_WIDTH])
    joined = b"".join(values)
    if len(joined) != 4 * shape[0] * shape[1] * shape[2] or not joined:
        raise InputError(f"{path} has {len(joined)} bytes of values: expected 4 for each of {shape}")
    return np.frombuffer(joined, "<f4").astype(np.float32).reshape(shape)


def _field(content: bytes, position: int, kind: int) -> tuple[int, bytes, int]:
    """Return the number or the bytes of a field, and the beginning of the next one."""
    if kind == _VARINT:
        number, position = _varint(content, position)
        return number, b"", position
    if kind == _LENGTH:
        length, position = _varint(content, position)
    elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
        length = 8 if kind == _EIGHT_BYTES else 4
    else:
        raise ValueError(f"byte {position} begins a field of kind {kind}")
    if position + length > len(content):
        raise ValueError(f"a field of {length} bytes begins at byte {position} of {len(content)}")
    return 0, content[position : position + length], position + length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return an integer of seven bits per byte, and its end."""
    number = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise ValueError(f"the integer before byte {position} does not end")
