"""Files of data sets: where they are looked for, how they are read, and what is said of those not as published."""

import gzip
import os
import zlib
from collections.abc import Sequence, Sized
from typing import Any

from tpack.errors import ConfigError, InputError
from tpack.utils.fs import get_dataset_path
from tpack.utils.optional import import_optional
from tpack.utils.validation import shown


def data_dir(given: str | os.PathLike[str] | None, default_name: str) -> str:
    """Return the directory of a data set.

    Args:
        given: the one that the user gave, or None.
        default_name: its name below the directory of all data sets, see `tpack.utils.fs.get_dataset_path`.
    """
    return get_dataset_path(default_name) if given is None else os.path.abspath(os.fspath(given))


def find_file(folder: str, names: Sequence[str], source: str) -> str:
    """Return the path of the first of some files that is there.

    Args:
        folder: where to look.
        names: paths in it, the one that is best first.
        source: where to get the files, for the message.

    Raises:
        InputError: There is none of them.
    """
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    looked_for = " or ".join(names)
    raise InputError(
        f"{folder} has no {looked_for}: get the files from {source} and put them there; nothing is downloaded"
    )


def check_name(owner: object, name: str, allowed: Sequence[str], argument: str = "name") -> str:
    """Return the name of a part of a data set, given as an argument.

    Raises:
        ConfigError: There is no such part.
    """
    if name not in allowed:
        raise ConfigError(
            f"{type(owner).__name__} got {argument}={shown(name)}: expected {', '.join(map(repr, allowed))}"
        )
    return name


def read_bytes(path: str, size: int | None = None) -> bytes:
    """Return the content of a file, decompressed if its name ends in ``.gz``.

    Args:
        path: the file.
        size: how many bytes there have to be; None is any number. No more than that is ever held in memory.

    Raises:
        InputError: There is another number, or the file cannot be read or decompressed.
    """
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
            content = file.read() if size is None else file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if size is not None and len(content) != size:
        found = f"more than {size}" if len(content) > size else f"{len(content)}"
        raise InputError(f"{path} holds {found} bytes: expected {size}; it is damaged or another file")
    return content


def read_lines(path: str) -> list[str]:
    """Return the lines of a text file that are not empty, without spaces around them.

    Raises:
        InputError: The file cannot be read as text.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from error


def check_same_length(images_path: str, images: Sized, labels_path: str, labels: Sized) -> None:
    """Check that there are as many labels as images.

    Raises:
        InputError: There are not, or there is none.
    """
    if len(images) != len(labels) or len(images) == 0:
        raise InputError(
            f"{images_path} holds {len(images)} images and {labels_path} {len(labels)} labels: expected as many"
        )


def load_mat(path: str, *names: str) -> list[Any]:
    """Return variables of a file of MATLAB, version 5, which SciPy reads.

    Args:
        path: the file.
        *names: the variables.

    Raises:
        InputError: The file cannot be read, or lacks a variable.
    """
    scipy_io = import_optional("scipy.io", "examples")
    try:
        found = scipy_io.loadmat(path, variable_names=list(names))
    except Exception as error:
        # What SciPy raises on damaged files is of many kinds.
        raise InputError(f"{path} is no MATLAB file that can be read: {type(error).__name__}: {error}") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{path} has no variable {', '.join(missing)}: it is damaged or another file")
    return [found[name] for name in names]
