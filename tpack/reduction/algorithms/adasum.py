"""Reduce by Adasum: add what differs in gradients, and average what they have in common.

Two gradients a and b become ``a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2))``: their sum where they are orthogonal,
and their mean where they are parallel. K of them go up the tree of halving and doubling: neighbours in pairs, then
pairs of pairs. With another K than a power of two, the last one of an odd level goes up as it is.

The scalar products are those of whole gradients, so a gradient that is packed with others or cut has another result.

Cost of D bytes: K - 1 towers send their own once, and all get the result: as many bytes as on one device, in
2 * log2(K) steps, and 3 scalar products for each of the K - 1 pairs.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.sums import add_pair, copy_to_each, dense_slices, on_device_of, widened
from tpack.tower.grads import Column, Gradient, ReduceOp, common_shape, is_sparse


class AdasumReducer(Reducer):
    """A reducer by Adasum, for any number of towers: neither the sum nor the mean, whichever is asked for.

    Learning rates need not grow with K. ``IndexedSlices`` become dense. No packing wrapper belongs around it.

    16-bit gradients are combined in float32, and rounded once at the end. A gradient of zeros changes nothing.

    Example:
        ``SyncMultiGPUTrainerReplicated(8, mode="adasum")``

    Source:
        Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2021.
    """

    name = "adasum"
    is_linear = False

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse gradients that are not of a floating-point type."""
        for column in columns:
            check_has_angle(type(self).__name__, column[0])

    def reduce_columns(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce columns as `Reducer.reduce_columns` does; results of sparse ones are dense."""
        self.check(columns)
        with tf.name_scope(self.name):
            dense = [_as_dense(column) if is_sparse(column[0]) else column for column in columns]
            return self.reduce_dense(dense, op)

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Combine each column on its own; the devices of a pair take turns from column to column."""
        reduced: list[Column] = []
        for n, column in enumerate(columns):
            total = adasum_tree(column, turn=n)
            with on_device_of(total):
                total = tf.cast(total, column[0].dtype.base_dtype)
            reduced.append(copy_to_each(total, column))
        return reduced

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce sparse columns for a wrapper; results are dense."""
        return self.reduce_columns(columns, op)


def check_has_angle(owner: str, gradient: Gradient) -> None:
    """Raise a `ReductionError` for a gradient that Adasum cannot combine.

    Args:
        owner: the name of what was called, for the message.
        gradient: dense, or ``IndexedSlices``, which must know the shape of the tensor.
    """
    if not gradient.dtype.is_floating:
        raise ReductionError(
            f"{owner} got {gradient.name} of {gradient.dtype.name}: expected a floating-point type for Adasum"
        )
    if is_sparse(gradient) and not gradient.shape.is_fully_defined():
        raise ReductionError(
            f"{owner} got the IndexedSlices {gradient.name} of shape {gradient.shape}: expected a known shape, since "
            "Adasum makes them dense"
        )


def adasum_tree(vectors: Sequence[tf.Tensor], *, turn: int = 0) -> tf.Tensor:
    """Combine tensors pair by pair up the tree, each pair on the device of one of the two.

    Args:
        vectors: K of one shape.
        turn: which of the two, by its bits; the same for all pairs of a level.

    Returns:
        The result, of float32 for 16-bit floats, on the device of one of them.
    """
    level, height = list(vectors), 0
    while len(level) > 1:
        above = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            with on_device_of((left, right)[turn >> height & 1]):
                above.append(adasum_pair(left, right))
        level, height = above + level[2 * len(above) :], height + 1
    return level[0]


def adasum_pair(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Combine two tensors of one shape on the current device; in the other order it gives the same bits."""
    a, b = widened(left), widened(right)
    product = tf.reduce_sum(tf.multiply(a, b))

    def scaled(one: tf.Tensor) -> tf.Tensor:
        square = tf.reduce_sum(tf.square(one))
        # Without an angle there is nothing in common.
        return one * (1 - tf.div_no_nan(product, 2 * square))

    return add_pair(scaled(a), scaled(b))


def _as_dense(column: Column) -> Column:
    shape = common_shape(column)
    dense = []
    for slices in column:
        with on_device_of(slices):
            dense.append(dense_slices(slices, shape))
    return dense
