"""Reduce ``IndexedSlices``, the gradient of an embedding, by concatenation.

The sum of K sets of slices is the set of all of them: an index that occurs twice means that its rows are added, which
is what optimizers do with duplicates. Nothing is made dense, so the cost depends on the rows that were touched and
not on the size of the table. When towers together touch more rows than the table has, a dense gradient is cheaper.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.dividing import divide
from tpack.reduction.sums import on_device_of


def concat_slices(column: Sequence[Any], divisor: int = 1) -> Any:
    """Concatenate the slices of K towers in the order of the towers, on the current device.

    Args:
        column: K ``IndexedSlices`` of one variable.
        divisor: K for a mean, 1 for a sum.

    Returns:
        ``IndexedSlices`` with the rows of all towers, and the ``dense_shape`` of the first that has one.

    Shapes:
        values: K times [rows_k, ...] to [sum of rows_k, ...]
        indices: K times [rows_k] to [sum of rows_k]
    """
    values = divide(tf.concat([slices.values for slices in column], axis=0), divisor)
    indices = tf.concat([slices.indices for slices in column], axis=0)
    dense_shape = next((slices.dense_shape for slices in column if slices.dense_shape is not None), None)
    return tf.IndexedSlices(values, indices, dense_shape)


def copy_slices_to_each(total: Any, column: Sequence[Any]) -> list[Any]:
    """Copy reduced slices to the device of every member of ``column``, which keeps its own ``dense_shape``."""
    copies = []
    for member in column:
        with on_device_of(member):
            values, indices = tf.identity(total.values), tf.identity(total.indices)
            dense_shape = member.dense_shape if member.dense_shape is not None else total.dense_shape
            if dense_shape is not None:
                dense_shape = tf.identity(dense_shape)
        copies.append(tf.IndexedSlices(values, indices, dense_shape))
    return copies
