"""Data sets in arrays of one length, such as images and their labels."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.validation import check_arguments, shown

# Methods of objects that look like arrays but have no rows by number, and the replacement for each.
_NO_ROWS = {
    "iloc": "to_numpy(), or a dict of columns, {name: frame[name].to_numpy() for name in frame}",
    "toarray": "toarray(), or a generator function that yields dense rows",
}

_BLOCK = 1024
"""The number of rows in a step of a checksum, and in the whole checksum of an array that may be in a file."""


def is_array(value: object) -> bool:
    """Tell whether a value has rows: a numpy array, an array in a file, a PyTorch tensor."""
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0 and hasattr(value, "__getitem__")


@check_arguments
class DataFromArrays(IndexedDataFlow):
    """Yield the rows of arrays, in a new random order on each pass or in their own.

    Arrays may be in a file, as ``np.memmap`` and h5py have them: a row is read when yielded; one in memory is a view.

    Args:
        arrays: one array, several in a list or tuple, or several by name in a dict: then each data point is a dict.

    Shapes:
        [N, ...] each to N data points with components of [...].

    Raises:
        WrongTypeError: One of them has no rows that are read by number, such as a pandas frame.
        ConfigError: There is none, or their lengths differ.

    Example:
        BatchData(DataFromArrays((images, labels)), 64)
    """

    def __init__(self, arrays: Any, shuffle: bool = True) -> None:
        super().__init__(shuffle)
        self._columns = _columns(arrays)
        self._names = list(arrays) if isinstance(arrays, Mapping) else None

    def __len__(self) -> int:
        return len(self._columns[0])

    def fingerprint(self) -> list[list[Any]]:
        """Return the name, shape, type and checksum of each array, which tell them from others.

        The checksum of an array that may be in a file, or of objects, covers about a thousand rows.
        """
        names = self._names or range(len(self._columns))
        return [[str(name), *_facts(column)] for name, column in zip(names, self._columns, strict=True)]

    def _read(self, index: int) -> object:
        row = [_as_numpy(column[index]) for column in self._columns]
        return row if self._names is None else dict(zip(self._names, row, strict=True))


def _columns(arrays: object) -> list[Any]:
    """Return the arrays after checking that they are arrays of one length."""
    columns = [arrays] if is_array(arrays) else arrays
    values = list(columns.values()) if isinstance(columns, Mapping) else columns
    if not isinstance(values, Sequence) or not values or not all(map(is_array, values)):
        raise WrongTypeError(
            f"DataFromArrays got arrays={shown(arrays)}: expected an array, or a list or dict of arrays, such as (x, y)"
        )
    for value in values:
        if ways := [way for method, way in _NO_ROWS.items() if hasattr(value, method)]:
            kind = type(value).__name__
            raise WrongTypeError(f"DataFromArrays got a {kind}: expected rows that are read by number; use {ways[0]}")
    lengths = [len(value) for value in values]
    if len(set(lengths)) > 1:
        shapes = ", ".join(str(tuple(value.shape)) for value in values)
        raise ConfigError(f"DataFromArrays got arrays of the shapes {shapes}: expected the same first dimension")
    return list(values)


def _facts(column: Any) -> list[Any]:
    """Return the shape, the type and the checksum of an array."""
    checksum = 0
    if type(column) is np.ndarray and not column.dtype.hasobject:
        for first in range(0, len(column), _BLOCK):
            checksum = zlib.crc32(column[first : first + _BLOCK].tobytes(), checksum)
    else:
        for index in range(0, len(column), max(1, len(column) // _BLOCK)):
            row = np.asarray(_as_numpy(column[index]))
            checksum = zlib.crc32(repr(row.tolist()).encode() if row.dtype.hasobject else row.tobytes(), checksum)
    return [list(map(int, column.shape)), str(column.dtype), checksum]


def _as_numpy(row: Any) -> Any:
    if isinstance(row, (np.ndarray, np.generic)):
        return row
    return row.detach().cpu().numpy() if hasattr(row, "detach") else np.asarray(row)
