"""Private, aligned copies of arrays that outlive the call they are fed to.

TensorFlow takes a fed array without copying it when its memory is aligned to 64 bytes. The tensor in a queue is
then the array itself, and changing the array changes what comes out of the queue. A copy that nobody else holds is
safe and, made on such an address, is the only copy on the way.

Memory that is fresh from the system costs more than the copy: each of its pages is made when it is first touched. So
memory that nobody holds any more is used again.
"""

import ctypes
import weakref
from collections import deque
from typing import Any

import numpy as np

ALIGNMENT_BYTES = 64

# Less is taken from what the process has already.
_LEAST_TO_KEEP_BYTES = 1 << 16


class AlignedCopies:
    """Makes aligned copies of arrays that are about equally large, in as much memory as is in use at the same time."""

    def __init__(self) -> None:
        self._free: deque[np.ndarray] = deque()

    def copy(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Copy an array as `aligned_copy` does, into memory of which no array is left that an earlier call returned."""
        size = array.size * dtype.itemsize + ALIGNMENT_BYTES
        if dtype.kind == "O" or size < _LEAST_TO_KEEP_BYTES:
            return aligned_copy(array, dtype)
        memory = self._take(size)
        # What the copy holds, and so any view of it and any tensor made of it; nobody else does. It is no array, since
        # numpy lets an array hold the one that owns the memory, past all between.
        handle = (ctypes.c_uint8 * memory.size).from_buffer(memory)
        weakref.finalize(handle, self._free.append, memory).atexit = False
        return _copy_into(handle, memory.ctypes.data, array, dtype)

    def _take(self, size: int) -> Any:
        """Return free memory of a fitting size; what does not fit is given up."""
        while self._free:
            memory = self._free.popleft()
            if size <= memory.size <= 2 * size:
                return memory
        return np.empty(size, np.uint8)


def aligned_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy an array into fresh memory that starts at a multiple of 64 bytes.

    Args:
        array: any array that can be cast.
        dtype: the dtype of the copy; object for strings, which TensorFlow always copies.

    Returns:
        A C-ordered array of the same shape.
    """
    if dtype.kind == "O":
        return array.astype(object)
    memory = np.empty(array.size * dtype.itemsize + ALIGNMENT_BYTES, np.uint8)
    return _copy_into(memory, memory.ctypes.data, array, dtype)


def _copy_into(buffer: Any, address: int, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    copy: np.ndarray = np.ndarray(array.shape, dtype, buffer=buffer, offset=-address % ALIGNMENT_BYTES)
    np.copyto(copy, array, casting="unsafe")
    return copy
