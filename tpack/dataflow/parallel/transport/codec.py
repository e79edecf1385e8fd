"""One object as bytes and arrays: the arrays go as they are, and only what is left is pickled.

Any arrays in the object, however deep, are laid out in memory one after the other, each copied once, straight to where
the other process reads it. What remains (the lists, dicts and numbers around them) is a small pickle that says which
array goes where. Functions, closures and classes of the main script are taken by cloudpickle.

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

from tpack.errors import DataPointError

# TensorFlow takes an array as it is, without a copy, if it begins at a multiple of this.
ALIGNMENT = 64
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class ArraySpec:
    """Where an array lies in memory, and what it is."""

    start: int
    dtype: Any
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
    """An object that is ready to be written: its size is known."""

    def __init__(self, obj: Any) -> None:
        """Encode an object; its arrays are not copied yet.

        Args:
            obj: anything that cloudpickle takes.

        Raises:
            DataPointError: A part of it cannot be pickled.
        """
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
        self._placed: Sequence[ArraySpec | None] = [None] * len(self._arrays)
        self._rest = file.getbuffer()
        self._lay_out(0)

    def place(self, placed: Callable[[np.ndarray], int | None], end: int) -> None:
        """Say which arrays need no copy.

        Args:
            placed: tells where an array lies already in the memory that will be written to; None if it does not.
            end: from where on the memory is free.
        """
        starts = [placed(array) for array in self._arrays]
        self._placed = [
            None if start is None else _spec(array, start) for array, start in zip(self._arrays, starts, strict=True)
        ]
        self._lay_out(end)

    def _lay_out(self, end: int) -> None:
        """Decide where each array goes, and where the rest."""
        self.specs: list[ArraySpec] = []
        for array, spec in zip(self._arrays, self._placed, strict=True):
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
        for array, spec, placed in zip(self._arrays, self.specs, self._placed, strict=True):
            if placed is None:
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
    """Return the first place from ``start`` on where an array may begin."""
    return -(-start // ALIGNMENT) * ALIGNMENT


def _spec(array: np.ndarray, start: int) -> ArraySpec:
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    # The name is a tenth of the work of pickling a dtype; records have none.
    dtype: Any = array.dtype if array.dtype.names or array.dtype.kind == "V" else array.dtype.str
    return ArraySpec(start, dtype, array.shape, "F" if is_fortran else "C")


def _same(array: np.ndarray) -> np.ndarray:
    """Return the argument; what the pickle calls with an array."""
    return array


class _Pickler(cloudpickle.Pickler):
    """Gathers arrays instead of pickling them."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._is_inside)
        self.arrays: list[np.ndarray] = []
        self._stand_in: pickle.PickleBuffer | None = None

    def reducer_override(self, obj: Any) -> Any:
        """Put a stand-in where an array is."""
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            self.arrays.append(obj)
            self._stand_in = pickle.PickleBuffer(bytearray())
            return _same, (self._stand_in,)
        return super().reducer_override(obj)

    def _is_inside(self, buffer: pickle.PickleBuffer) -> bool:
        """Tell whether a buffer's bytes belong into the pickle: those of all objects but our stand-ins."""
        return buffer is not self._stand_in
