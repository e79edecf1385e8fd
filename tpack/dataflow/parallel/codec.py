"""Objects as bytes and arrays: the arrays go as they are, and only what is left is pickled.

Any arrays in the object, however deep, are laid out in memory one after the other, each copied once, straight to where
the other process reads it. What remains (the lists, dicts and numbers around them) is a small pickle that says which
array goes where. Functions, closures and classes of the main script are taken by cloudpickle.

Small data points that are alike are put together into one message, a pack, so that none of them costs a message of its
own. The arrays of each component are written below each other into one array in shared memory, as they come: a point
may be changed right after it was handed over. Python's own numbers, strings and bytes are kept and pickled all at once.

Both ends are processes of one program. Bytes from anywhere else go through ``tpack.utils.serialize``, which never
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

# TensorFlow takes an array as it is, without a copy, if it begins at a multiple of this.
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
    """Where an array lies in memory, and what it is."""

    start: int
    dtype: np.dtype | str
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """Return the array that lies in some memory, given as an array of bytes that the specification is for."""
        return np.ndarray(self.shape, self.dtype, memory, self.start, order=self.order)

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Encoded:
    """An object that is ready to be written: its size is known.

    Args:
        obj: anything that cloudpickle takes.

    Raises:
        DataPointError: A part of it cannot be pickled.
    """

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
        """Decide where each array goes, and where the rest; an array that lies there already needs no copy.

        Args:
            start_of: tells where an array lies already in the memory that will be written to; None if it does not.
            end: from where on the memory is free.
        """
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
        """The number of bytes of memory that the object takes."""
        return self.rest_start + self.rest_size

    @property
    def largest_array(self) -> int:
        """The number of bytes of its largest array."""
        return max((array.nbytes for array in self._arrays), default=0)

    def write(self, memory: np.ndarray) -> None:
        """Copy everything into memory.

        Args:
            memory: an array of at least ``size_bytes`` bytes.
        """
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
    """Return an object that was written.

    Args:
        memory: what it was written to.
        rest_start: as it was in ``Encoded``.
        rest_size: as it was in ``Encoded``.
        take: returns the array of a specification: a view of the memory or a copy. Everything else is copied.
    """
    rest = memory.data[rest_start : rest_start + rest_size]
    header_end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "little")
    specs = [ArraySpec(*spec) for spec in pickle.loads(rest[_LENGTH_BYTES:header_end])]
    # An array stands in the pickle as a buffer that is not in it, and the unpickler takes any object for such a one.
    return pickle.loads(rest[header_end:], buffers=map(take, specs))


def aligned(start: int) -> int:
    """Return the first byte from ``start`` on where an array may begin."""
    return -(-start // ALIGNMENT) * ALIGNMENT


def _spec(array: np.ndarray, start: int) -> ArraySpec:
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    # The name is a tenth of the work of pickling a dtype; records have none.
    dtype: np.dtype | str = array.dtype if array.dtype.names or array.dtype.kind == "V" else array.dtype.str
    return ArraySpec(start, dtype, array.shape, "F" if is_fortran else "C")


def _same(array: np.ndarray) -> np.ndarray:
    """Return the argument; what the pickle calls with an array."""
    return array


class _StandIns:
    """What stands for arrays in a pickle: buffers of which only the newest is known."""

    def __init__(self) -> None:
        self._newest: pickle.PickleBuffer | None = None

    def make(self) -> pickle.PickleBuffer:
        """Return the next one."""
        self._newest = pickle.PickleBuffer(bytearray())
        return self._newest

    def is_other(self, buffer: pickle.PickleBuffer) -> bool:
        """Tell whether a buffer's bytes belong into the pickle: those of all objects but our stand-ins."""
        return buffer is not self._newest


class _Pickler(cloudpickle.Pickler):
    """Gathers arrays instead of pickling them."""

    def __init__(self, file: io.BytesIO) -> None:
        self._stand_ins = _StandIns()
        # Not a method of the pickler, which would hold itself, and the arrays, until Python looks for such circles.
        super().__init__(file, protocol=5, buffer_callback=self._stand_ins.is_other)
        self.arrays: list[np.ndarray] = []

    def reducer_override(self, obj: object) -> Any:
        """Put a stand-in where an array is."""
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            self.arrays.append(obj)
            return _same, (self._stand_ins.make(),)
        return super().reducer_override(obj)


class Layout:
    """What points that can be in one pack have in common."""

    def __init__(self, point: Any) -> None:
        self.kind = type(point)
        self.keys = list(point) if self.kind is dict else None
        # The type, dtype and shape of each component; a dtype of None is for what is no array.
        self.columns: list[tuple[Any, np.dtype | None, tuple[int, ...]]] = []
        self.array_bytes = 0
        # Without a component nothing would say how many points there are.
        self._is_packable = self.kind in (list, tuple, dict) and len(point) > 0
        if self._is_packable:
            for value in self.values(point):
                self._add(value)

    def _add(self, value: Any) -> None:
        if not isinstance(value, (np.ndarray, np.generic)):
            self.columns.append((object, None, ()))
            return
        dtype: np.dtype = value.dtype
        # A subclass has more to it than its numbers.
        self._is_packable &= type(value) in (np.ndarray, dtype.type) and dtype.kind not in "OV"
        self.columns.append((type(value), dtype, value.shape))
        self.array_bytes += value.nbytes

    def values(self, point: Any) -> Any:
        """Return the components of a point."""
        return point.values() if self.keys is not None else point

    def takes(self, point: Any) -> bool:
        """Tell whether a point is like the one that was described, and small enough for a pack."""
        return self._is_packable and 0 <= self.measure(point) <= _SMALL_BYTES - self.array_bytes

    def has_kind_of(self, point: Any) -> bool:
        """Tell whether a point is the same kind of container with as many components, or the same keys."""
        if point.__class__ is not self.kind or len(point) != len(self.columns):
            return False
        return self.keys is None or list(point) == self.keys

    def measure(self, point: Any) -> int:
        """Return at most how many bytes a pickle of all but the arrays has; -1 if the point is not alike."""
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
    """Points that are gathered in a slot.

    Args:
        layout: what the points are like.
        memory: the slot, at least ``MIN_SLOT_BYTES`` bytes.
        most: how many points to take at most.
    """

    def __init__(self, layout: Layout, memory: np.ndarray, most: int) -> None:
        self._layout = layout
        self._memory = memory
        per_point = max(1, layout.array_bytes)
        self._most = max(1, min(most, _MAX_POINTS, (_ARRAY_BYTES - len(layout.columns) * ALIGNMENT) // per_point))
        self._columns: list[Any] = []
        self._starts: list[int] = []
        self._end = 0
        for _, dtype, shape in layout.columns:
            self._add_column(dtype, shape)
        # What to compare a component with, and where to put it.
        self._targets = [(*what, column) for what, column in zip(layout.columns, self._columns, strict=True)]
        # Which of the points so far are None.
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
        """Add a point, or None; return whether it is like the others, so that it could be."""
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
        """Write a point into the next row; return the bytes of all but the arrays, or -1 if the point is not alike.

        The row is not counted yet, so it may be written in part. This is most of what a small point costs.
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
        """Write down what the columns are; return where that begins and its size."""
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
    """Return the rows of a column, each with memory of its own: who keeps one point shall not keep them all."""
    column: np.ndarray = np.ndarray(shape, dtype, memory, start)
    return [np.array(row) for row in column] if kind is np.ndarray else list(column)


def _plain_bytes(value: Any) -> int:
    """Return at most how many bytes a value has in a pickle; -1 if it can be changed, or takes long to pickle."""
    kind = type(value)
    if kind in (float, bool, type(None)) or (kind is int and -_INT64 <= value < _INT64):
        return _NUMBER_BYTES
    if kind is str:
        return _NUMBER_BYTES + 4 * len(value)
    return _NUMBER_BYTES + len(value) if kind is bytes else -1
