"""Vectors of gradients: flatten, cut into chunks that are reduced on their own, and join again.

Several algorithms assign each tower a part of every gradient to sum; packers concatenate the gradients of a tower and
may cut the result. The sizes of chunks differ by one at most: nothing is padded. All towers cut alike, so chunk i has
the same size in every tower.

Sizes are constants where static shapes are known, and else computed at run time by the same rule. All are 64-bit, so a
vector may have more than 2**31 elements.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.reduction.sums import on_device_of
from tpack.tower.grads import Column, common_shape


def chunk_sizes(size: int, num_chunks: int) -> list[int]:
    """Return the sizes of the chunks of ``size`` elements: the larger ones first, empty ones last."""
    return [(size + num_chunks - 1 - i) // num_chunks for i in range(num_chunks)]


def cut(vector: tf.Tensor, num_chunks: int) -> list[tf.Tensor]:
    """Cut a vector into exactly ``num_chunks`` chunks on the current device.

    Shapes:
        [size] to ``num_chunks`` vectors of the sizes that `chunk_sizes` returns; ``size`` may be unknown.
    """
    if num_chunks == 1:
        return [vector]
    size = vector.shape.num_elements()
    if size is not None:
        return list(tf.split(vector, np.array(chunk_sizes(size, num_chunks), np.int64)))
    # The formula of `chunk_sizes`, for all chunks at once.
    rounded_up = tf.size(vector, out_type=tf.int64) + tf.constant(list(reversed(range(num_chunks))), tf.int64)
    return list(tf.split(vector, tf.floordiv(rounded_up, num_chunks), num=num_chunks))


def flatten_column(column: Column) -> list[tf.Tensor]:
    """Flatten the K gradients of one variable, each on its own device.

    Shapes:
        K tensors of one shape to K vectors. What is known of one member's shape holds for all.
    """
    size = common_shape(column).num_elements()
    vectors = []
    for member in column:
        with on_device_of(member):
            vectors.append(tf.reshape(member, [-1 if size is None else size]))
    return vectors


def cut_column(column: Column, num_chunks: int) -> list[list[tf.Tensor]]:
    """Cut the K gradients of one variable into chunks, each gradient on its own device.

    Args:
        column: K dense tensors.
        num_chunks: the most chunks. A gradient known to have fewer elements gives one chunk per element, an empty one a
            single chunk.

    Returns:
        M <= ``num_chunks`` columns of K vectors: all towers' first chunks, all towers' second ones, and so on.
    """
    size = common_shape(column).num_elements()
    if size is not None:
        num_chunks = min(num_chunks, max(size, 1))
    towers = []
    for vector in flatten_column(column):
        with on_device_of(vector):
            towers.append(cut(vector, num_chunks))
    return [list(pieces) for pieces in zip(*towers, strict=True)]


def join_column(chunks: Sequence[Column], column: Column) -> list[tf.Tensor]:
    """Join M columns of K chunks, as from `cut_column`, to K tensors with the shapes and on the devices of a column."""
    shape = common_shape(column)
    joined = []
    for member, pieces in zip(column, zip(*chunks, strict=True), strict=True):
        with on_device_of(member):
            vector = tf.concat(pieces, axis=0) if len(pieces) > 1 else pieces[0]
            tensor = tf.reshape(vector, shape if shape.is_fully_defined() else tf.shape(member))
        tensor.set_shape(shape)
        joined.append(tensor)
    return joined


def concat_flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate tensors of one dtype to a vector, on the current device."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def split_flat(flat: tf.Tensor, originals: Sequence[tf.Tensor]) -> list[tf.Tensor]:
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


def _sizes(tensors: Sequence[tf.Tensor]) -> np.ndarray | tf.Tensor:
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    if None not in sizes:
        return np.array(sizes, np.int64)
    dynamic = []
    for tensor in tensors:
        with on_device_of(tensor):
            dynamic.append(tf.size(tensor, out_type=tf.int64))
    return tf.stack(dynamic)
