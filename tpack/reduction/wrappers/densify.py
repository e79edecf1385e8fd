"""Make sparse gradients dense where that is smaller.

A reduced sparse gradient holds the rows of all towers. When these are more bytes than the table itself, as for a small
table or a large batch, a dense gradient is cheaper to move and to apply, and any algorithm can reduce it.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.gradients import check_columns, is_sparse
from tpack.reduction.sums import on_device_of, widened


class DensifyReducer(Reducer):
    """Turn ``IndexedSlices`` into dense tensors where the K slices together are larger than the tensor.

    It is decided by static shapes: a gradient whose ``dense_shape`` or number of rows is not known before the run stays
    sparse. Slices and tensor are compared by their bytes, indices included. What becomes dense is made so in each
    tower, with duplicate indices added, and is reduced by the inner reducer together with the dense gradients. Inside
    another wrapper the two are reduced apart: let this one be the outermost.

    On a GPU, TensorFlow adds duplicate indices in no fixed order, unless ``tf.config.experimental`` has made operations
    deterministic.

    Args:
        inner: what reduces the gradients.
    """

    def __init__(self, inner: Reducer) -> None:
        self._inner = inner
        self.name = f"densify_{inner.name}"

    def reduce(self, tower_grads: Sequence[Sequence[Any]], op: ReduceOp = ReduceOp.MEAN) -> list[list[Any]]:
        """Reduce K lists of N gradients as `Reducer.reduce` does; results of sparse gradients may be dense.

        Shapes:
            tower_grads: K x N gradients, alike along K; returned: K x N gradients of the same shapes.

        Raises:
            ReductionError: The gradients are no full rectangle of alike tensors, integers are to be averaged, or the
                inner reducer cannot serve them.
        """
        columns = check_columns(tower_grads, op)
        if len(tower_grads) == 1:
            return [list(tower_grads[0])]
        becomes_dense = [is_sparse(column[0]) and _slices_are_larger(column) for column in columns]
        # Slices tell their dtype, shape and device as tensors do, so limits can be checked before any of them is dense.
        self._check_dense(
            [
                column
                for column, becomes in zip(columns, becomes_dense, strict=True)
                if becomes or not is_sparse(column[0])
            ]
        )
        with tf.name_scope(self.name):
            prepared = [
                _as_dense(column) if becomes else column for column, becomes in zip(columns, becomes_dense, strict=True)
            ]
            return self._inner.reduce(_transposed(prepared, len(tower_grads)), op)

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self._inner._check_dense(columns)

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return self._inner._reduce_dense(columns, op)

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return _transposed(self.reduce(_transposed(columns, len(columns[0])), op), len(columns)) if columns else []


def _transposed(rows: Sequence[Sequence[Any]], num_columns: int) -> list[Any]:
    return [[row[n] for row in rows] for n in range(num_columns)]


def _shape_of(column: Column) -> Any:
    """Return what the K members together know of the dense shape."""
    shape = column[0].shape
    for slices in column[1:]:
        shape = shape.merge_with(slices.shape)
    return shape


def _slices_are_larger(column: Column) -> bool:
    """Tell whether K slices with their indices are known to take more bytes than the dense tensor."""
    shape = _shape_of(column)
    rows = [slices.indices.shape.merge_with(slices.values.shape[:1]).num_elements() for slices in column]
    if not shape.is_fully_defined() or None in rows:
        return False
    value_bytes, index_bytes = column[0].dtype.size, column[0].indices.dtype.size
    slices_bytes = sum(rows) * (shape[1:].num_elements() * value_bytes + index_bytes)
    return bool(slices_bytes > shape.num_elements() * value_bytes)


def _as_dense(column: Column) -> Column:
    """Add the rows of each tower's slices into a tensor, where they are."""
    shape = _shape_of(column)
    dense = []
    for slices in column:
        with on_device_of(slices):
            total = tf.math.unsorted_segment_sum(widened(slices.values), slices.indices, shape.as_list()[0])
            dense.append(tf.cast(total, slices.dtype.base_dtype))
            dense[-1].set_shape(shape)
    return dense
