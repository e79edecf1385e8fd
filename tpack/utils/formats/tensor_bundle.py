"""Checkpoints of TensorFlow, read without it: ``model-100.index`` and ``model-100.data-00000-of-00001``.

The index is a sorted table: for each name, a message of protocol buffers that says of what dtype and shape the value
is, in which file, where there, and its checksum. For ``tpack inspect`` this takes 0.2 s of processor time, and with
TensorFlow 4.9 s, nearly all for its import. Other dtypes, and damaged files, are left to TensorFlow.
"""

import importlib
import itertools
import math
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from tpack.errors import CheckpointError, InputError
from tpack.utils.formats.crc32c import masked_crc32c
from tpack.utils.formats.sstable import Cursor, NotReadError, read_table
from tpack.utils.fs import open_regular, read_regular

_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
}
"""The numbers that TensorFlow gives to dtypes."""

_IN_NUMPY = ("float", "int", "uint", "complex", "bool")
_VARINT, _PIECE = 0, 2
_MOST_INDEX_BYTES = 1 << 28
_NUM_BYTES = {1: 8, 5: 4}


class _Entry(NamedTuple):
    """The place and the type of a value."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    file: int
    offset: int
    size_bytes: int
    checksum: int


def read_bundle(prefix: str) -> dict[str, np.ndarray]:
    """Return all values of a checkpoint by name, in the order of the names.

    Args:
        prefix: what the names of its files begin with, on this machine.

    Raises:
        CheckpointError: A file is missing, was cut off or is damaged.
        NotReadError: There are values that only TensorFlow reads: strings, parts of variables, compressed blocks.
    """
    try:
        num_files, entries = _read_index(read_regular(f"{prefix}.index", _MOST_INDEX_BYTES))
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {prefix}: {error}") from error
    except InputError as error:
        raise _damaged(prefix, "index", error) from error
    values: dict[str, np.ndarray] = {}
    for number in sorted({entry.file for entry in entries}):
        of_file = sorted((entry for entry in entries if entry.file == number), key=lambda entry: entry.offset)
        for entry, following in itertools.pairwise(of_file):
            if entry.offset + entry.size_bytes > following.offset:
                raise _damaged(prefix, "index", f"the data of {entry.name} and {following.name} overlap")
        values.update(_read_file(prefix, f"{prefix}.data-{number:05d}-of-{num_files:05d}", of_file))
    return {entry.name: values[entry.name] for entry in entries}


def _damaged(prefix: str, part: str, reason: object) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {prefix} is damaged: its {part} cannot be read ({reason}). It may have been truncated; load "
        "an earlier one"
    )


def _read_index(data: bytes) -> tuple[int, list[_Entry]]:
    """Return how many files hold the values, and the entries."""
    table = read_table(data)
    first = next(table, None)
    if first is None or first[0]:
        raise InputError("it has no header")
    fields = dict(_fields(first[1]))
    if fields.get(2, 0):
        raise NotReadError("numbers begin with their highest byte")
    num_files = fields.get(1, 0)
    entries = [_entry(key, value) for key, value in table]
    if any(entry.file >= num_files for entry in entries):
        raise InputError(f"a value is in a file that is not among the {num_files}")
    return num_files, entries


def _entry(key: bytes, value: bytes) -> _Entry:
    fields = dict(_fields(value))
    if 7 in fields:
        raise NotReadError("a variable is in parts")
    try:
        name = key.decode()
    except UnicodeDecodeError as error:
        raise NotReadError(f"a key is no name: {key!r}") from error
    dtype, shape = _dtype(fields.get(1, 0)), _shape(fields.get(2, b""))
    size_bytes = fields.get(5, 0)
    if size_bytes != math.prod(shape) * dtype.itemsize:
        raise InputError(f"{name} was to have the shape {shape} of {dtype.name}, and {size_bytes} bytes")
    return _Entry(name, dtype, shape, fields.get(3, 0), fields.get(4, 0), size_bytes, fields.get(6, 0))


def _dtype(number: int) -> np.dtype:
    name = _DTYPES.get(number)
    if name is None:
        raise NotReadError(f"values of the type {number}")
    if name.rstrip("0123456789") in _IN_NUMPY:
        return np.dtype(name)
    # TensorFlow needs it, and few checkpoints do.
    return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def _shape(message: bytes) -> tuple[int, ...]:
    dimensions = [dict(_fields(piece)) for number, piece in _fields(message) if number == 2]
    sizes = tuple(dimension.get(1, 0) for dimension in dimensions)
    if any(size >= 1 << 63 for size in sizes):
        raise NotReadError("a shape has a dimension of unknown size")
    return sizes


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and contents of the fields of a protocol buffer; raise InputError for other messages."""
    cursor = Cursor(message)
    while not cursor.is_at_end:
        number, kind = divmod(cursor.number(), 8)
        if kind == _VARINT:
            yield number, cursor.number()
        elif kind == _PIECE:
            yield number, cursor.take(cursor.number())
        elif kind in _NUM_BYTES:
            yield number, int.from_bytes(cursor.take(_NUM_BYTES[kind]), "little")
        else:
            raise InputError(f"a field has the unknown kind {kind}")


def _read_file(prefix: str, path: str, entries: list[_Entry]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names and values in one file."""
    try:
        with open_regular(path) as file:
            for entry in entries:
                yield entry.name, _value(prefix, file, entry)
    except (FileNotFoundError, InputError) as error:
        raise _damaged(prefix, f"file {os.path.basename(path)}", error) from error


def _value(prefix: str, file: IO[bytes], entry: _Entry) -> np.ndarray:
    part, end = f"data of the variable {entry.name!r}", entry.offset + entry.size_bytes
    size_bytes = os.fstat(file.fileno()).st_size
    if end > size_bytes:
        raise _damaged(prefix, part, f"it ends at byte {end}, and the file at {size_bytes}")
    file.seek(entry.offset)
    data = file.read(entry.size_bytes)
    if masked_crc32c(data) != entry.checksum:
        raise _damaged(prefix, part, "its checksum does not fit")
    return np.frombuffer(data, entry.dtype).reshape(entry.shape)
