"""Objects as bytes and arrays: arrays are copied as they are, and only the rest is pickled.

All arrays in an object, however deep, are laid out in memory one after the other, each copied once, to where the other
process reads it. The rest (lists, dicts and numbers around them) is a small pickle, of cloudpickle, with the place of
each array.

Small similar data points are put together into one message, a pack. The arrays of each component become rows of one
array in shared memory, as they come: a point may be changed right after it was handed over. Python's numbers, strings
and bytes are pickled together.

Both ends are processes of one program. Bytes from elsewhere go through ``tpack.utils.serialize``, which never
unpickles.
"""

import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import cloudpickle
import numpy as np

from tpack.dataflow.parallel.slots import MIN_SLOT_BYTES
from tpack.errors import DataPointError

# TensorFlow takes an array without a copy if it begins at a multiple of this.
ALIGNMENT = 64

_LENGTH_BYTES = 4
# Half of the smallest slot is for arrays, the other half for everything else.
_ARRAY_BYTES = MIN_SLOT_BYTES // 2

_OTHER_BYTES = MIN_SLOT_BYTES // 4
_SMALL_BYTES = _ARRAY_BYTES // 4
_MAX_POINTS = 2048
_NUMBER_BYTES = 16
_INT64 = 2**63


@dataclass(frozen=True)
class ArraySpec:
    """Place, dtype, shape and order of an array in memory."""

    start: int
    dtype: np.dtype | str
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """Return the array in some memory, given as an array of bytes."""
        return np.ndarray(self.shape, self.dtype, memory, self.start, order=self.order)

    @property
    def size_bytes(self) -> int:
        """The size of the array in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Encoded:
    """An object that cloudpickle takes, ready to be written, of known size; others raise DataPointError."""

    def __init__(self, obj: object) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(obj)
        except Exception as error:
            raise DataPointError(
                f"an object of type {type(obj).__name__} cannot be sent to another process: "
                f"{type(error).__name__}: {error}"
            ) from error
        self._arrays = pickler.arrays
        self._in_place: Sequence[ArraySpec | None] = [None] * len(self._arrays)
        self._rest = file.getbuffer()
        self._lay_out(0)

    def lay_out(self, start_of: Callable[[np.ndarray], int | None], end: int) -> None:
        """Decide where each array goes, from ``end`` on, then the rest; those with a ``start_of`` are in place."""
        starts = [start_of(array) for array in self._arrays]
        self._in_place = [
            None if start is None else _spec(array, start) for array, start in zip(self._arrays, starts, strict=True)
        ]
        self._lay_out(end)

    def _lay_out(self, end: int) -> None:
        self.specs: list[ArraySpec] = []
        for array, spec in zip(self._arrays, self._in_place, strict=True):
            if spec is None:
                start = aligned(end)
                spec = _spec(array, start)
                end = start + array.nbytes
            self.specs.append(spec)
        self._header = pickle.dumps([(s.start, s.dtype, s.shape, s.order) for s in self.specs], 5)
        self.rest_start = end
        self.rest_size = _LENGTH_BYTES + len(self._header) + len(self._rest)

    @property
    def size_bytes(self) -> int:
        """The size of the object in memory."""
        return self.rest_start + self.rest_size

    @property
    def largest_array(self) -> int:
        """The size of its largest array in bytes."""
        return max((array.nbytes for array in self._arrays), default=0)

    def write(self, memory: np.ndarray) -> None:
        """Copy everything into memory, an array of at least ``size_bytes`` bytes."""
        for array, spec, in_place in zip(self._arrays, self.specs, self._in_place, strict=True):
            if in_place is None:
                np.copyto(spec.view(memory), array)
        header_start = self.rest_start + _LENGTH_BYTES
        rest_start = header_start + len(self._header)
        view = memory.data
        view[self.rest_start : header_start] = len(self._header).to_bytes(_LENGTH_BYTES, "little")
        view[header_start:rest_start] = self._header
        view[rest_start : rest_start + len(self._rest)] = self._rest


def decode(memory: np.ndarray, rest_start: int, rest_size: int, take: Callable[[ArraySpec], np.ndarray]) -> Any:
    """Return an object that was written to memory.

    The rest is as in ``Encoded``; ``take`` returns the array of a specification, as a view or a copy.
    """
    rest = memory.data[rest_start : rest_start + rest_size]
    header_end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "little")
    specs = [ArraySpec(*spec) for spec in pickle.loads(rest[_LENGTH_BYTES:header_end])]
    # Each array is an out-of-band buffer of the pickle, for which the unpickler takes any object.
    return pickle.loads(rest[header_end:], buffers=map(take, specs))


def aligned(start: int) -> int:
    """Return the next place from ``start`` on where an array may begin."""
    return -(-start // ALIGNMENT) * ALIGNMENT


def _spec(array: np.ndarray, start: int) -> ArraySpec:
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    # Its name costs a tenth of pickling a dtype; records have none.
    dtype: np.dtype | str = array.dtype if array.dtype.names or array.dtype.kind == "V" else array.dtype.str
    return ArraySpec(start, dtype, array.shape, "F" if is_fortran else "C")


def _same(array: np.ndarray) -> np.ndarray:
    """Return the argument; the pickle calls it with an array."""
    return array


class _StandIns:
    """Placeholders of arrays in a pickle: buffers of which only the newest is kept."""

    def __init__(self) -> None:
        self._newest: pickle.PickleBuffer | None = None

    def make(self) -> pickle.PickleBuffer:
        """Return the next placeholder."""
        self._newest = pickle.PickleBuffer(bytearray())
        return self._newest

    def is_other(self, buffer: pickle.PickleBuffer) -> bool:
        """Tell whether a buffer's bytes belong into the pickle, as those of all objects but placeholders."""
        return buffer is not self._newest


class _Pickler(cloudpickle.Pickler):
    """Pickler that collects arrays instead of pickling them."""

    def __init__(self, file: io.BytesIO) -> None:
        self._stand_ins = _StandIns()
        # Not a method of the pickler, which would keep itself and the arrays until Python looks for cycles.
        super().__init__(file, protocol=5, buffer_callback=self._stand_ins.is_other)
        self.arrays: list[np.ndarray] = []

    def reducer_override(self, obj: object) -> Any:
        """Replace an array by a placeholder, and what the other process has to open by how to open it."""
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            self.arrays.append(obj)
            return _same, (self._stand_ins.make(),)
        reopened = _reopened(obj)
        return super().reducer_override(obj) if reopened is None else reopened


def _reopened(obj: Any) -> tuple[Any, ...] | None:
    """Return how to open again what a fork would share with its parent; a flow of a script often keeps such objects."""
    kind = type(obj)
    if kind is io.BufferedReader:
        is_named = isinstance(obj.name, str) and not obj.closed and obj.seekable()
        return (_open_at, (obj.name, obj.tell())) if is_named else None
    # By name: the module is not imported for those who have no archive.
    if kind.__name__ == "ZipFile" and kind.__module__ == "zipfile":
        return (kind, (obj.filename,)) if obj.filename and obj.mode == "r" else None
    return None


def _open_at(path: str, position: int) -> io.BufferedReader:
    file = open(path, "rb")  # noqa: SIM115 (it belongs to the object that had it)
    file.seek(position)
    return file


class PackLayout:
    """The common structure of points that can be in one pack."""

    def __init__(self, point: Any) -> None:
        self.kind = type(point)
        self.keys = list(point) if self.kind is dict else None
        # The type, dtype and shape of each component; the dtype is None unless it is an array.
        self.columns: list[tuple[Any, np.dtype | None, tuple[int, ...]]] = []
        self.array_bytes = 0
        # Without a component the number of points would be unknown.
        self._is_packable = self.kind in (list, tuple, dict) and len(point) > 0
        for value in self.values(point) if self._is_packable else ():
            self._add(value)

    def _add(self, value: Any) -> None:
        if not isinstance(value, (np.ndarray, np.generic)):
            self.columns.append((object, None, ()))
            return
        dtype: np.dtype = value.dtype
        # A subclass has more than its numbers.
        self._is_packable &= type(value) in (np.ndarray, dtype.type) and dtype.kind not in "OV"
        self.columns.append((type(value), dtype, value.shape))
        self.array_bytes += value.nbytes

    def values(self, point: Any) -> Any:
        """Return the components of a point."""
        return point.values() if self.keys is not None else point

    def takes(self, point: Any) -> bool:
        """Tell whether a point is like the first one, and small enough for a pack."""
        return self._is_packable and 0 <= self.measure(point) <= _SMALL_BYTES - self.array_bytes

    def has_kind_of(self, point: Any) -> bool:
        """Tell whether a point is the same kind of container with as many components, or the same keys."""
        if point.__class__ is not self.kind or len(point) != len(self.columns):
            return False
        return self.keys is None or list(point) == self.keys

    def measure(self, point: Any) -> int:
        """Return an upper bound for the pickle of all but the arrays, in bytes; -1 if the point is different."""
        if not self.has_kind_of(point):
            return -1
        other_bytes = 0
        for value, (kind, dtype, shape) in zip(self.values(point), self.columns, strict=True):
            if dtype is None:
                size = _plain_bytes(value)
                if size < 0:
                    return -1
                other_bytes += size
            elif value.__class__ is not kind or value.shape != shape or value.dtype != dtype:
                return -1
        return other_bytes


class Pack:
    """Points, at most ``most``, that are gathered in a slot of at least ``MIN_SLOT_BYTES`` bytes."""

    def __init__(self, layout: PackLayout, memory: np.ndarray, most: int) -> None:
        self._layout = layout
        self._memory = memory
        per_point = max(1, layout.array_bytes)
        self._most = max(1, min(most, _MAX_POINTS, (_ARRAY_BYTES - len(layout.columns) * ALIGNMENT) // per_point))
        self._columns: list[Any] = []
        self._starts: list[int] = []
        self._end = 0
        for _, dtype, shape in layout.columns:
            self._add_column(dtype, shape)
        # The expected kind of each component, and its column.
        self._targets = [(*what, column) for what, column in zip(layout.columns, self._columns, strict=True)]
        # The places of points that are None.
        self._dropped: list[int] = []
        self._rows = 0
        self._other_bytes = 0
        self.count = 0
        self.is_full = False

    def _add_column(self, dtype: np.dtype | None, shape: tuple[int, ...]) -> None:
        self._starts.append(aligned(self._end))
        if dtype is None:
            self._columns.append([None] * self._most)
            return
        column: np.ndarray = np.ndarray((self._most, *shape), dtype, self._memory, self._starts[-1])
        self._columns.append(column)
        self._end = self._starts[-1] + column.nbytes

    def add(self, point: object) -> bool:
        """Add a point, or None; return False if it is different from the others."""
        if point is None:
            self._dropped.append(self.count)
        elif self._layout.has_kind_of(point):
            other_bytes = self._write_row(point)
            if not 0 <= other_bytes <= _SMALL_BYTES - self._layout.array_bytes:
                return False
            self._rows += 1
            self._other_bytes += other_bytes
        else:
            return False
        self.count += 1
        self.is_full = self.count >= self._most or self._other_bytes >= _OTHER_BYTES
        return True

    def _write_row(self, point: Any) -> int:
        """Write a point into the next row, uncounted; return the bytes of all but the arrays, or -1 if it differs.

        This is most of the cost of a small point.
        """
        row, other_bytes = self._rows, 0
        for value, (kind, dtype, shape, column) in zip(self._layout.values(point), self._targets, strict=True):
            if dtype is None:
                size = _plain_bytes(value)
                if size < 0:
                    return -1
                other_bytes += size
            elif value.__class__ is not kind or value.shape != shape or value.dtype != dtype:
                return -1
            column[row] = value
        return other_bytes

    def finish(self) -> tuple[int, int]:
        """Write the description of the columns; return its beginning and size."""
        rows = self._rows
        columns = [
            column[:rows] if dtype is None else (kind, dtype, (rows, *shape), start)
            for column, start, (kind, dtype, shape) in zip(
                self._columns, self._starts, self._layout.columns, strict=True
            )
        ]
        content = pickle.dumps((self._layout.kind, self._layout.keys, self._dropped, columns), 5)
        self._memory[self._end : self._end + len(content)].data[:] = content
        return self._end, len(content)


def unpack(memory: np.ndarray, start: int, size: int) -> list[Any]:
    """Return the points of a pack; they share nothing with the memory or with each other."""
    kind, keys, dropped, columns = pickle.loads(memory[start : start + size].data)
    values = [column if isinstance(column, list) else _rows(memory, *column) for column in columns]
    rows = zip(*values, strict=True)
    if kind is dict:
        points: list[Any] = [dict(zip(keys, row, strict=True)) for row in rows]
    else:
        points = list(map(kind, rows))
    for index in dropped:
        points.insert(index, None)
    return points


def _rows(memory: np.ndarray, kind: type, dtype: np.dtype, shape: tuple[int, ...], start: int) -> list[Any]:
    """Return the rows of a column, each with memory of its own: keeping one point shall not keep them all."""
    column: np.ndarray = np.ndarray(shape, dtype, memory, start)
    return [np.array(row) for row in column] if kind is np.ndarray else list(column)


def _plain_bytes(value: Any) -> int:
    """Return an upper bound for the pickle of a value; -1 if it is mutable, or slow to pickle."""
    kind = type(value)
    if kind in (float, bool, type(None)) or (kind is int and -_INT64 <= value < _INT64):
        return _NUMBER_BYTES
    if kind is str:
        return _NUMBER_BYTES + 4 * len(value)
    return _NUMBER_BYTES + len(value) if kind is bytes else -1
