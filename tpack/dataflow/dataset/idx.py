"""The files of MNIST and its relatives: a header of big-endian integers, then unsigned bytes."""

import numpy as np

from tpack.dataflow.dataset.files import read_bytes
from tpack.errors import InputError

_UNSIGNED_BYTES = 0x08


def read_idx(path: str, dimensions: int) -> np.ndarray:
    """Return the array in a file.

    Args:
        path: the file, compressed if its name ends in ``.gz``.
        dimensions: how many dimensions it has to have.

    Raises:
        InputError: The file is no such file, or has more or fewer bytes than its header says.

    Source:
        http://yann.lecun.com/exdb/mnist
    """
    content = read_bytes(path)
    start = 4 + 4 * dimensions
    if len(content) < start or content[:4] != bytes([0, 0, _UNSIGNED_BYTES, dimensions]):
        raise InputError(
            f"{path} begins with {content[:4].hex(' ')!r}: wanted an idx file of bytes in {dimensions} dimensions"
        )
    shape = [int(size) for size in np.frombuffer(content, ">u4", dimensions, offset=4)]
    size = int(np.prod(shape, dtype=object))
    if len(content) - start != size:
        raise InputError(f"{path} holds {len(content) - start} bytes after its header: wanted {size} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
