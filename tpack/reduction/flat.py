"""Lay tensors one after the other in one vector, and take the vector apart again.

Sizes are numbers in the graph where the static shapes say them, and are read from the tensors at run time where they do
not. All sizes are 64-bit, so a vector may have more than 2**31 elements.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.reduction.sums import on_device_of


def static_bytes(column: Sequence[Any]) -> float:
    """Return the size in bytes of the K tensors of a column, each; infinity if no static shape says it."""
    shape = column[0].shape
    for tensor in column[1:]:
        shape = shape.merge_with(tensor.shape)
    size = shape.num_elements()
    return math.inf if size is None else float(size * column[0].dtype.size)


def concat_flat(tensors: Sequence[Any]) -> Any:
    """Concatenate tensors of one dtype to a vector, on the current device."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def split_flat(flat: Any, originals: Sequence[Any]) -> list[Any]:
    """Split a vector on the current device into tensors with the shapes of ``originals``, each on its device.

    Shapes:
        flat: a vector with the elements of all originals; returned: one tensor for each original.
    """
    tensors = []
    for piece, original in zip(tf.split(flat, _sizes(originals)), originals, strict=True):
        with on_device_of(original):
            known = original.shape.is_fully_defined()
            tensors.append(tf.reshape(piece, original.shape if known else tf.shape(original)))
    return tensors


def split_evenly(flat: Any, num_pieces: int) -> list[Any]:
    """Split a vector on the current device into pieces of one size; the last takes what is left over.

    Where there are more pieces than elements, the first ones are empty.
    """
    size = flat.shape.num_elements()
    total = tf.size(flat, out_type=tf.int64) if size is None else size
    piece = total // num_pieces
    sizes = [piece] * (num_pieces - 1) + [total - piece * (num_pieces - 1)]
    return list(tf.split(flat, tf.stack(sizes) if size is None else np.array(sizes, np.int64)))


def _sizes(tensors: Sequence[Any]) -> Any:
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    if None not in sizes:
        return np.array(sizes, np.int64)
    return tf.stack([_size_of(tensor) for tensor in tensors])


def _size_of(tensor: Any) -> Any:
    with on_device_of(tensor):
        return tf.size(tensor, out_type=tf.int64)
