"""Arrays that are made where they will be read: a batch is put together in the memory that it is sent in."""

from typing import Any

import numpy as np

from tpack.dataflow.parallel.transport.codec import aligned

REST_BYTES = 4096
"""What is kept free behind the arrays, for what is pickled."""


class Place:
    """Free memory of a slot, which arrays are made in."""

    def __init__(self, memory: np.ndarray) -> None:
        """Take all of the memory as free.

        Args:
            memory: the slot as an array of bytes.
        """
        self._memory = memory
        # From here on the memory is free.
        self.end = 0
        # Whether there was no room for an array.
        self.is_short = False

    def empty(self, shape: Any, dtype: Any) -> np.ndarray:
        """Return an array as ``np.empty`` does, in the slot if there is room."""
        item = np.dtype(dtype)
        start = aligned(self.end)
        end = start + size_bytes(shape, item)
        if item.hasobject:
            return np.empty(shape, item)
        if end + REST_BYTES > self._memory.size:
            self.is_short = True
            return np.empty(shape, item)
        self.end = end
        return np.ndarray(shape, item, self._memory, start)

    def start_of(self, array: np.ndarray) -> int | None:
        """Return where an array lies in the slot, or None if it does not."""
        start = _address(array) - _address(self._memory)
        is_inside = start >= 0 and start + array.nbytes <= self.end
        return start if is_inside and array.flags.c_contiguous else None


def size_bytes(shape: Any, dtype: Any) -> int:
    """Return the number of bytes of an array."""
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
