"""Cut the gradients of one variable into chunks that are reduced on their own, and join the results.

Several algorithms give each tower a part of every gradient to sum. A gradient has any shape and its size need not
divide, so it is flattened and cut into chunks whose sizes differ by one at most: nothing is padded. Towers cut alike,
so chunk i of one tower has the size of chunk i of every other. A shape that is known only when the graph runs is cut by
the same rule at that time.

Lay tensors one after the other in one vector, and take the vector apart again.

Sizes are numbers in the graph where the static shapes say them, and are read from the tensors at run time where they do
not. All sizes are 64-bit, so a vector may have more than 2**31 elements.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.reduction.sums import on_device_of


def chunk_sizes(size: int, num_chunks: int) -> list[int]:
    """Return the sizes of the chunks of ``size`` elements: the larger ones first, empty ones last."""
    return [(size + num_chunks - 1 - i) // num_chunks for i in range(num_chunks)]


def cut(vector: Any, num_chunks: int) -> list[Any]:
    """Cut a vector into exactly ``num_chunks`` chunks on the current device.

    Shapes:
        [size] to ``num_chunks`` vectors of the sizes that `chunk_sizes` returns; ``size`` may be unknown.
    """
    if num_chunks == 1:
        return [vector]
    size = vector.shape.num_elements()
    if size is not None:
        return list(tf.split(vector, chunk_sizes(size, num_chunks)))
    # The formula of `chunk_sizes`, for all chunks at once.
    sizes = tf.floordiv(tf.size(vector) + tf.constant(list(reversed(range(num_chunks)))), num_chunks)
    return list(tf.split(vector, sizes, num=num_chunks))


def flatten_column(column: Sequence[Any]) -> list[Any]:
    """Flatten the K gradients of one variable, each on its own device.

    Shapes:
        K tensors of one shape to K vectors. What is known of the shape of one member holds for all of them.
    """
    size = _common_shape(column).num_elements()
    vectors = []
    for member in column:
        with on_device_of(member):
            vectors.append(tf.reshape(member, [-1 if size is None else size]))
    return vectors


def cut_column(column: Sequence[Any], num_chunks: int) -> list[list[Any]]:
    """Cut the K gradients of one variable into chunks, each gradient on its own device.

    Args:
        column: K dense tensors.
        num_chunks: how many chunks are wanted. A gradient that is known to have fewer elements gives one chunk for
            each, and one that is known to be empty a single one.

    Returns:
        M <= ``num_chunks`` lists of K vectors: all towers' first chunks, all towers' second ones, and so on.
    """
    size = _common_shape(column).num_elements()
    if size is not None:
        num_chunks = min(num_chunks, max(size, 1))
    towers = []
    for vector in flatten_column(column):
        with on_device_of(vector):
            towers.append(cut(vector, num_chunks))
    return [list(pieces) for pieces in zip(*towers, strict=True)]


def join_column(chunks: Sequence[Sequence[Any]], column: Sequence[Any]) -> list[Any]:
    """Join chunks to tensors in the shapes and on the devices of the gradients that they were cut from.

    Args:
        chunks: M lists of K vectors, as from `cut_column`; their devices do not matter.
        column: the K gradients.

    Returns:
        K tensors.
    """
    shape = _common_shape(column)
    joined = []
    for member, pieces in zip(column, zip(*chunks, strict=True), strict=True):
        with on_device_of(member):
            vector = tf.concat(pieces, axis=0) if len(pieces) > 1 else pieces[0]
            tensor = tf.reshape(vector, shape if shape.is_fully_defined() else tf.shape(member))
        tensor.set_shape(shape)
        joined.append(tensor)
    return joined


def _common_shape(column: Sequence[Any]) -> Any:
    """Return what is known of the one shape that the members of a column have."""
    shape = column[0].shape
    for member in column[1:]:
        shape = shape.merge_with(member.shape)
    return shape


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
