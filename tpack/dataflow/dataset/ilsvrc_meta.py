"""What the images of ILSVRC 2012 are: the lists that everybody numbers the thousand classes by."""

import os

import numpy as np

from tpack.dataflow.dataset.files import check_name, data_dir, find_file, read_bytes, read_lines
from tpack.dataflow.dataset.mean_blob import decode_mean_blob
from tpack.dataflow.opencv import opencv
from tpack.errors import ConfigError, InputError

META_SOURCE = "http://dl.caffe.berkeleyvision.org/caffe_ilsvrc12.tar.gz"
PARTS = ("train", "val", "test")
STRUCTURES = ("original", "train")


class ILSVRCMeta:
    """The content of ``caffe_ilsvrc12.tar.gz``: synsets.txt, synset_words.txt, train.txt, val.txt, test.txt."""

    def __init__(self, dir: str | os.PathLike[str] | None = None) -> None:
        """Say where the files are; each is read when it is asked for.

        Args:
            dir: the directory; None is ``ilsvrc_metadata`` below `get_dataset_path()`.
        """
        self.dir = data_dir(dir, "ilsvrc_metadata")

    def get_synset_1000(self) -> dict[int, str]:
        """Return the synset, such as ``"n01440764"``, by the number of its class."""
        return dict(enumerate(self._lines("synsets.txt")))

    def get_synset_words_1000(self) -> dict[int, str]:
        """Return the synset and its words by the number of the class."""
        return dict(enumerate(self._lines("synset_words.txt")))

    def get_image_list(self, name: str, dir_structure: str = "original") -> list[tuple[str, int]]:
        """Return the files of a part, as paths in its directory, and their classes.

        Args:
            name: ``"train"``, ``"val"`` or ``"test"``.
            dir_structure: ``"original"``, or ``"train"`` if the images of this part too lie in a directory for each
                synset.

        Raises:
            ConfigError: There is no such part or structure.
            InputError: The file is missing, or a line of it is no path and class.
        """
        check_name(self, name, PARTS)
        check_name(self, dir_structure, STRUCTURES)
        file = f"{name}.txt"
        images = [
            _parse(os.path.join(self.dir, file), number, line) for number, line in enumerate(self._lines(file), 1)
        ]
        if name == "train" or dir_structure == "original":
            return images
        synsets = self.get_synset_1000()
        unknown = sorted({label for _, label in images} - set(synsets))
        if unknown:
            raise InputError(
                f"{os.path.join(self.dir, file)} has the class {unknown[0]}: synsets.txt has {len(synsets)}"
            )
        return [(os.path.join(synsets[label], path), label) for path, label in images]

    def get_per_pixel_mean(self, size: tuple[int, int] | None = None) -> np.ndarray:
        """Return the mean image, float32 of shape (256, 256, 3) in blue, green and red.

        Args:
            size: height and width that it is resized to, if given.

        Raises:
            InputError: ``imagenet_mean.binaryproto`` is missing or damaged.
        """
        path = find_file(self.dir, ["imagenet_mean.binaryproto"], META_SOURCE)
        mean = np.ascontiguousarray(decode_mean_blob(path, read_bytes(path)).transpose(1, 2, 0))
        return mean if size is None else opencv().resize(mean, (size[1], size[0]))

    @staticmethod
    def guess_dir_structure(dir: str | os.PathLike[str]) -> str:
        """Return ``"train"`` if a directory has one directory for each synset, and else ``"original"``.

        Raises:
            InputError: It does not exist, or is empty.
        """
        folder = os.fspath(dir)
        try:
            with os.scandir(folder) as entries:
                first = next(iter(sorted(entries, key=lambda entry: entry.name)), None)
        except OSError as error:
            raise InputError(f"{folder} cannot be listed: {error}") from error
        if first is None:
            raise InputError(f"{folder} is empty: wanted images, or directories of images")
        return "train" if first.is_dir() else "original"

    def _lines(self, file: str) -> list[str]:
        """Return the lines of a file, of which there must be one."""
        path = find_file(self.dir, [file], META_SOURCE)
        lines = read_lines(path)
        if not lines:
            raise InputError(f"{path} is empty")
        return lines


def _parse(path: str, number: int, line: str) -> tuple[str, int]:
    """Return the path and class that a line of a list holds."""
    name, _, label = line.rpartition(" ")
    if not name or not label.isdecimal():
        raise InputError(f"{path}, line {number}: {line[:80]!r} is no path and class")
    return name.strip(), int(label)


def check_structure(owner: object, dir_structure: str | None, folder: str) -> str:
    """Return the structure of a directory: the one that was given, or what it looks like.

    Raises:
        ConfigError: What was given is no structure.
    """
    if dir_structure is None:
        return ILSVRCMeta.guess_dir_structure(folder)
    if dir_structure not in STRUCTURES:
        raise ConfigError(
            f"{type(owner).__name__} got dir_structure={dir_structure!r}: wanted {', '.join(map(repr, STRUCTURES))}"
        )
    return dir_structure
