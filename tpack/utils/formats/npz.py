"""Arrays read from ``.npz`` files, which are ZIP archives, and never unpickled.

Python's reader trusts an archive's directory and verifies a checksum only at the end, so numpy can miss or confuse
arrays without an error. So the directory is compared with the end of the file, and each array is read completely.
"""

import io
import os
import struct
import zipfile

import numpy as np

from tpack.errors import InputError

_END = struct.Struct("<4s6xH4xI2x")
_ONE_ARRAY = b"\x93NUMPY"
_END_SIGNATURE = b"PK\x05\x06"
# Placeholders of larger numbers, which are elsewhere.
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
        with open(path, "rb") as file:
            if file.read(len(_ONE_ARRAY)) == _ONE_ARRAY:
                raise ValueError("it holds one array without a name, and numpy.savez writes arrays with names")
        with zipfile.ZipFile(path) as archive:
            _check_directory(path, archive)
            return {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in archive.infolist()}
    except Exception as error:
        # Damaged archives raise many kinds of errors.
        raise InputError(f"cannot read arrays from {path}: {type(error).__name__}: {error}") from error


def _check_directory(path: str, archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose end disagrees with its directory's size or place."""
    with open(path, "rb") as file:
        file.seek(-_END.size, os.SEEK_END)
        signature, count, start = _END.unpack(file.read())
    if signature != _END_SIGNATURE:
        raise ValueError("it does not end as archives end that have no comment, which numpy does not write")
    found = len(archive.infolist()), archive.start_dir
    if any(said not in (is_so, *_ELSEWHERE) for said, is_so in zip((count, start), found, strict=True)):
        raise ValueError(f"the directory has {found[0]} files at byte {found[1]}: expected {count} at byte {start}")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Return an array; its checksum covers all of the entry, so nothing may be left over."""
    content = io.BytesIO(archive.read(info))
    array: np.ndarray = np.lib.format.read_array(content, allow_pickle=False)
    if content.read(1):
        raise ValueError(f"{info.filename} is longer than its array")
    return array
