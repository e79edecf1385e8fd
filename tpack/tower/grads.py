"""Gradients, dense or sparse, and operations on them that need no distinction.

Each of K towers has one gradient for each of N variables. The K gradients of one variable are a *column*: all towers
run the same function, so they are equal in kind, dtype and shape, and the static shape of one holds for all.
"""

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices
"""A gradient of one variable: dense, or sparse, which is some of its rows."""

Pairs: TypeAlias = Iterable[tuple[Gradient | None, tf.Variable]]
"""(gradient, variable) pairs that an optimizer applies."""

Step: TypeAlias = tf.Variable | None
"""The global step that an optimizer counts up, if any."""

Column: TypeAlias = Sequence[Gradient]
"""The K gradients of one variable, in the order of the towers."""


class ReduceOp(enum.Enum):
    """Reduction of the K gradients of one variable to one.

    A mean is the sum divided by K, after the summing. Partial sums that are passed from device to device have the
    gradients' type: in float16 such a sum can overflow (beyond 65504) although the mean would not.
    """

    SUM = "sum"
    MEAN = "mean"

    def divisor(self, num_towers: int) -> int:
        """Return the number by which a sum over ``num_towers`` towers is divided."""
        return num_towers if self is ReduceOp.MEAN else 1


def is_sparse(gradient: object) -> bool:
    """Tell whether a gradient is ``IndexedSlices``."""
    return isinstance(gradient, tf.IndexedSlices)


def gradient_values(gradient: Gradient) -> tf.Tensor:
    """Return the values of a gradient: itself, or the values of ``IndexedSlices``."""
    return gradient.values if is_sparse(gradient) else gradient


def map_gradient_values(func: Callable[[tf.Tensor], tf.Tensor], gradient: Gradient) -> Gradient:
    """Apply a function to the values of a gradient; the indices and the shape of ``IndexedSlices`` stay."""
    if is_sparse(gradient):
        return tf.IndexedSlices(func(gradient.values), gradient.indices, gradient.dense_shape)
    return func(gradient)


def gradient_parts(gradient: Gradient) -> list[tf.Tensor]:
    """Return the tensors of a gradient: itself, or values, indices and, if present, the shape."""
    if not is_sparse(gradient):
        return [gradient]
    return [part for part in (gradient.values, gradient.indices, gradient.dense_shape) if part is not None]


def map_gradient_parts(func: Callable[[tf.Tensor], tf.Tensor], gradient: Gradient) -> Gradient:
    """Apply a function to each tensor of a gradient."""
    if not is_sparse(gradient):
        return func(gradient)
    parts = (gradient.values, gradient.indices, gradient.dense_shape)
    return tf.IndexedSlices(*(None if part is None else func(part) for part in parts))


def common_shape(column: Column) -> tf.TensorShape:
    """Return the static dense shape of a column, merged from its members."""
    shape = column[0].shape
    for gradient in column[1:]:
        shape = shape.merge_with(gradient.shape)
    return shape


def static_bytes(column: Column) -> float:
    """Return the size in bytes of each dense gradient of a column; infinity without a static shape."""
    size = common_shape(column).num_elements()
    return math.inf if size is None else float(size * column[0].dtype.size)
