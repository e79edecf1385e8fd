"""Make sparse gradients dense where that is smaller.

A reduced sparse gradient holds the rows of all towers. If these take more bytes than the table, as for a small table or
a large batch, a dense gradient is cheaper to move and to apply, and any algorithm can reduce it.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.sums import on_device_of, widened
from tpack.tower.grads import Column, ReduceOp, common_shape, is_sparse
from tpack.utils.validation import check_arguments


@check_arguments
class DensifyReducer(ReducerWrapper):
    """A wrapper that makes ``IndexedSlices`` dense where the K slices together are larger than the tensor.

    Static shapes decide: a gradient with an unknown ``dense_shape`` or number of rows stays sparse. Sizes are compared
    in bytes, indices included. Each tower makes its own gradient dense, with duplicate indices added; the inner reducer
    gets it together with the dense gradients. Inside another wrapper the two are reduced apart, so make this the
    outermost.

    On a GPU, TensorFlow adds duplicate indices in no fixed order (tensorflow/tensorflow#39751), unless
    ``tf.config.experimental`` has made operations deterministic.

    Args:
        inner: reduces the gradients.
    """

    def __init__(self, inner: Reducer) -> None:
        super().__init__(inner, "densify")

    def reduce_columns(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce columns as `Reducer.reduce_columns` does; results of sparse ones may be dense."""
        becomes_dense = [is_sparse(column[0]) and _slices_are_larger(column) for column in columns]
        pairs = list(zip(columns, becomes_dense, strict=True))
        # Slices have a dtype, shape and device like tensors, so limits can be checked before any of them is dense.
        dense = [column for column, becomes in pairs if becomes or not is_sparse(column[0])]
        if dense:
            self.check(dense)
        with tf.name_scope(self.name):
            prepared = [_as_dense(column) if becomes else column for column, becomes in pairs]
            return self.inner.reduce_columns(prepared, op)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce sparse columns for another wrapper; results may be dense."""
        return self.reduce_columns(columns, op)


def _slices_are_larger(column: Column) -> bool:
    """Tell whether K slices with their indices are known to take more bytes than the dense tensor."""
    shape = common_shape(column)
    rows = [slices.indices.shape.merge_with(slices.values.shape[:1]).num_elements() for slices in column]
    if not shape.is_fully_defined() or None in rows:
        return False
    value_bytes, index_bytes = column[0].dtype.size, column[0].indices.dtype.size
    slices_bytes = sum(rows) * (shape[1:].num_elements() * value_bytes + index_bytes)
    return bool(slices_bytes > shape.num_elements() * value_bytes)


def _as_dense(column: Column) -> Column:
    """Add the rows of each tower's slices into a tensor, on their device."""
    shape = common_shape(column)
    dense = []
    for slices in column:
        with on_device_of(slices):
            total = tf.math.unsorted_segment_sum(widened(slices.values), slices.indices, shape.as_list()[0])
            dense.append(tf.cast(total, slices.dtype.base_dtype))
            dense[-1].set_shape(shape)
    return dense
