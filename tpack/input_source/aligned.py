"""Private, aligned copies of arrays that outlive the call they are fed to.

TensorFlow takes a fed array without copying it when its memory is aligned to 64 bytes. The tensor in a queue is
then the array itself, and changing the array changes what comes out of the queue. A copy that nobody else holds is
safe and, made on such an address, is the only copy on the way.
"""

import numpy as np

ALIGNMENT_BYTES = 64


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
    offset = -memory.ctypes.data % ALIGNMENT_BYTES
    copy: np.ndarray = np.ndarray(array.shape, dtype, buffer=memory, offset=offset)
    np.copyto(copy, array, casting="unsafe")
    return copy
