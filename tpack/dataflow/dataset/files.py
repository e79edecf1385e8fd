"""Files of data sets: their places, their reading, and messages about missing or different ones."""

import gzip
import os
import zlib
from collections.abc import Sequence, Sized
from typing import Any

from tpack.errors import ConfigError, InputError
from tpack.utils.fs import get_dataset_path
from tpack.utils.lazy import import_optional
from tpack.utils.validation import shown

_MOST_BYTES = 1 << 30


def data_dir(given: str | os.PathLike[str] | None, default_name: str) -> str:
    """Return the directory of a data set: the given one, or that of a name in `tpack.utils.fs.get_dataset_path`."""
    return get_dataset_path(default_name) if given is None else os.path.abspath(os.fspath(given))


def find_file(folder: str, names: Sequence[str], source: str) -> str:
    """Return the path of the first of some names, the best one first, that exists in a folder.

    Raises:
        InputError: None of them exists; the message names the ``source`` of the files.
    """
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise InputError(f"{folder} has no {' or '.join(names)}: get the files from {source}; nothing is downloaded")


def check_name(owner: object, name: str, allowed: Sequence[str], argument: str = "name") -> str:
    """Return the name of a part of a data set; raise a ConfigError if there is no such part."""
    if name not in allowed:
        choices = ", ".join(map(repr, allowed))
        raise ConfigError(f"{type(owner).__name__} got {argument}={shown(name)}: expected one of {choices}")
    return name


def read_bytes(path: str, size: int | None = None) -> bytes:
    """Return the content of a file, decompressed if its name ends in ``.gz``; at most `size` bytes are held in memory.

    Raises:
        InputError: The size differs from a given one, or the file cannot be read or decompressed.
    """
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
            content = file.read((_MOST_BYTES if size is None else size) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if size is None and len(content) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES} bytes: expected a file of the data set")
    if size is not None and len(content) != size:
        found = f"more than {size}" if len(content) > size else f"{len(content)}"
        raise InputError(f"{path} has {found} bytes: expected {size}; it is damaged or another file")
    return content


def read_lines(path: str) -> list[str]:
    """Return the non-empty lines of a text file, stripped; raise an InputError if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from error


def check_same_length(images_path: str, images: Sized, labels_path: str, labels: Sized) -> None:
    """Check that there are as many labels as images; raise an InputError otherwise, or if there are none."""
    if len(images) != len(labels) or len(images) == 0:
        given = f"{images_path} has {len(images)} images and {labels_path} {len(labels)} labels"
        raise InputError(f"{given}: expected the same number of both")


def load_mat(path: str, *names: str) -> list[Any]:
    """Return variables of a MATLAB file, version 5, which SciPy reads; raise InputError if one is missing."""
    scipy_io = import_optional("scipy.io", "examples")
    try:
        found = scipy_io.loadmat(path, variable_names=list(names))
    except Exception as error:
        # SciPy raises exceptions of many kinds on damaged files.
        raise InputError(f"{path} cannot be read as a MATLAB file: {type(error).__name__}: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{path} has no variable {', '.join(missing)}: it is damaged or another file")
    return [found[name] for name in names]
