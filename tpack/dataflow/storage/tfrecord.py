"""TFRecord files, written and read without TensorFlow.

A record is its length in 8 bytes, a checksum of these, the data, and a checksum of the data; numbers have their lowest
byte first, and checksums are masked (see ``tpack.utils.crc32c``). Nothing in a file says how many records it has.
"""

import os
import struct
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from tpack.dataflow.indexed import IndexedDataFlow
from tpack.errors import InputError
from tpack.utils.crc32c import masked_crc32c

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class TFRecordData(IndexedDataFlow):
    """Yield the records of a TFRecord file as bytes, with their checksums checked.

    The places of the records are found when the flow is made, by reading the header of each.
    """

    def __init__(self, path: str | os.PathLike[str], shuffle: bool = False) -> None:
        """Make the flow.

        Args:
            path: the file, not compressed.
            shuffle: whether each pass has a new order.

        Raises:
            InputError: The file is missing, was cut off, or a header in it is damaged.
        """
        super().__init__(shuffle)
        self.path = os.fspath(path)
        self._offsets = _find_records(self.path)

    def __len__(self) -> int:
        return len(self._offsets)

    def _points(self, start: int) -> Iterator[Any]:
        # Each pass opens the file for itself, so that passes do not disturb one another.
        with open(self.path, "rb") as file:
            for index in self._draw_order()[start:].tolist():
                yield self._decode(read_record(file, int(self._offsets[index]), index), index)

    def _read(self, index: int) -> Any:
        with open(self.path, "rb") as file:
            return self._decode(read_record(file, int(self._offsets[index]), index), index)

    def _decode(self, data: bytes, index: int) -> Any:
        """Return the data point in a record; here the record itself."""
        return data


def write_record(file: IO[bytes], data: bytes) -> None:
    """Write a record.

    Args:
        file: a file opened for writing bytes.
        data: what the record holds.
    """
    length = _LENGTH.pack(len(data))
    file.write(length + _CHECKSUM.pack(masked_crc32c(length)))
    file.write(data)
    file.write(_CHECKSUM.pack(masked_crc32c(data)))


def read_record(file: IO[bytes], offset: int, index: int) -> bytes:
    """Return what a record holds.

    Args:
        file: a file opened for reading bytes.
        offset: where the record begins.
        index: its number, for messages.

    Raises:
        InputError: The record is damaged or was cut off.
    """
    length = _read_length(file, offset, index, os.fstat(file.fileno()).st_size)
    data = file.read(length)
    (checksum,) = _CHECKSUM.unpack(file.read(_CHECKSUM.size))
    if checksum != masked_crc32c(data):
        raise InputError(f"{_where(file, offset, index)} is damaged: its data has another checksum than it should")
    return data


def _find_records(path: str) -> np.ndarray:
    """Return where each record of a file begins."""
    offsets = []
    try:
        with open(path, "rb") as file:
            size, offset = os.fstat(file.fileno()).st_size, 0
            while offset < size:
                offsets.append(offset)
                offset += _HEADER.size + _read_length(file, offset, len(offsets) - 1, size) + _CHECKSUM.size
    except OSError as error:
        raise InputError(f"the TFRecord file {path} cannot be read: {error}") from error
    return np.array(offsets, np.int64)


def _read_length(file: IO[bytes], offset: int, index: int, file_size: int) -> int:
    """Read a header; return how many bytes of data follow, which the file has."""
    file.seek(offset)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise InputError(f"{_where(file, offset, index)} was cut off: the file ends in its header")
    length, checksum = _HEADER.unpack(header)
    if checksum != masked_crc32c(header[: _LENGTH.size]):
        raise InputError(
            f"{_where(file, offset, index)} is damaged: its length has another checksum than it should; "
            "a file that is compressed, or of another kind, looks like this too"
        )
    end = offset + _HEADER.size + length + _CHECKSUM.size
    if end > file_size:
        raise InputError(f"{_where(file, offset, index)} was cut off: it ends at byte {end} of {file_size}")
    return length


def _where(file: IO[bytes], offset: int, index: int) -> str:
    return f"record {index} of the TFRecord file {file.name}, at byte {offset},"
