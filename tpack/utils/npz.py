"""Arrays read from ``.npz`` files, which are archives in the ZIP format, and never unpickled.

Python's reader of archives believes their directory, and numpy's gives the bytes of what is no array: a wrong byte makes
it leave arrays out without a word. So what is read is compared with what the end of the file says.
"""

import os
import struct
import zipfile

import numpy as np

from tpack.errors import InputError

_END = struct.Struct("<4s6xH4xI2x")
_END_SIGNATURE = b"PK\x05\x06"
# What does not fit into the numbers of the format stands elsewhere.
_ELSEWHERE = (0xFFFF, 0xFFFFFFFF)


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays in a file by name.

    Args:
        path: the file.

    Raises:
        InputError: It is missing, damaged or another kind of file, or holds Python objects.
    """
    path = os.fspath(path)
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            with loaded as file:
                _check_directory(path, file.zip)
                return {name: _as_array(name, file[name]) for name in file.files}
    except Exception as error:
        # What damaged archives raise is of many kinds.
        raise InputError(f"cannot read arrays from {path}: {type(error).__name__}: {error}") from error
    raise InputError(f"{path} holds one array without a name: wanted a file that numpy.savez wrote")


def _check_directory(path: str, archive: zipfile.ZipFile) -> None:
    """Refuse an archive of which the end names another number of files, or another place of their directory."""
    with open(path, "rb") as file:
        file.seek(-_END.size, os.SEEK_END)
        signature, count, start = _END.unpack(file.read())
    found = len(archive.infolist()), archive.start_dir
    if signature == _END_SIGNATURE and any(
        said not in (is_so, *_ELSEWHERE) for said, is_so in zip((count, start), found, strict=True)
    ):
        raise ValueError(f"the directory has {found[0]} files at byte {found[1]}: wanted {count} at byte {start}")


def _as_array(name: str, value: object) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} is no array")
    return value
