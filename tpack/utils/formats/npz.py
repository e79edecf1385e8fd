"""Arrays read from ``.npz`` files, which are ZIP archives, and never unpickled.

Python's reader trusts an archive's directory and verifies a checksum only at the end, so numpy can miss or confuse
arrays without an error. So the directory is compared with the end of the file, and each array is read completely.
"""

import os
import re
import struct
import zipfile
from typing import IO

import numpy as np

from tpack.errors import InputError
from tpack.utils.fs import check_inner_name, check_size, open_regular

_END = struct.Struct("<4s6xH4xI2x")
_ONE_ARRAY = b"\x93NUMPY"
_END_SIGNATURE = b"PK\x05\x06"
_OF_OUTPUT = re.compile(r":\d+(?=(\.npy)?$)")
# Placeholders of larger numbers, which are elsewhere.
_ELSEWHERE = (0xFFFF, 0xFFFFFFFF)


MAX_BYTES = 1 << 32
"""The default limit of decompressed arrays in a file."""


def read_npz(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Return the arrays in a file by name.

    Args:
        path: the file.
        max_bytes: the limit of all arrays, decompressed, where they are larger than the file.

    Raises:
        InputError: It is missing, damaged or another kind of file, exceeds the limit, or holds Python objects or a
            name that leads out of a directory.
    """
    path = os.fspath(path)
    try:
        with open_regular(path) as file:
            if file.read(len(_ONE_ARRAY)) == _ONE_ARRAY:
                raise ValueError("it holds one array without a name, and numpy.savez writes arrays with names")
            archive = zipfile.ZipFile(file)
            _check_directory(path, file, archive, max_bytes)
            return {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in archive.infolist()}
    except InputError:
        raise
    except Exception as error:
        # Damaged archives raise many kinds of errors.
        raise InputError(f"cannot read arrays from {path}: {type(error).__name__}: {error}") from error


def _check_directory(path: str, file: IO[bytes], archive: zipfile.ZipFile, max_bytes: int) -> None:
    """Refuse an archive with a bad name, too large content, or an end that disagrees with its directory."""
    members = archive.infolist()
    for info in members:
        # Names of variables may have a number of an output, and empty parts.
        check_inner_name(path, _OF_OUTPUT.sub("", re.sub("(?<=.)/+", "/", info.filename)))
    # Members that overlap may be larger than the file without compression.
    check_size(path, sum(info.file_size for info in members), max(max_bytes, os.fstat(file.fileno()).st_size))
    file.seek(-_END.size, os.SEEK_END)
    signature, count, start = _END.unpack(file.read())
    if signature != _END_SIGNATURE:
        raise ValueError("it does not end as archives end that have no comment, which numpy does not write")
    found = len(members), archive.start_dir
    if any(said not in (is_so, *_ELSEWHERE) for said, is_so in zip((count, start), found, strict=True)):
        raise ValueError(f"the directory has {found[0]} files at byte {found[1]}: expected {count} at byte {start}")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Return an array; its checksum covers all of the entry, so nothing may be left over."""
    with archive.open(info) as content:
        array: np.ndarray = np.lib.format.read_array(content, allow_pickle=False)
        if content.read(1):
            raise ValueError(f"{info.filename} is longer than its array")
    return array
