"""Sum or average gradients, wherever the caller stands: a column with one ``add_n`` and at most one division.

Each run of a graph adds in the same order, so that a run can be repeated bit by bit. TensorFlow alone does not promise
that: see `fix_summation_order`. The order is one that TensorFlow takes from the names of the gradients.

Sums of 16-bit floats are added and divided in float32 and rounded once.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import fix_summation_order
from tpack.reduction.dividing import divide
from tpack.reduction.gradients import is_sparse
from tpack.reduction.reduce_op import ReduceOp
from tpack.reduction.sparse import concat_slices
from tpack.reduction.widening import widened


def sum_tensors(tensors: Sequence[Any], divisor: int = 1) -> Any:
    """Sum dense tensors on the current device, in the same order in every run, and divide by ``divisor``."""
    total = tf.add_n([widened(tensor) for tensor in tensors])
    fix_summation_order([total.op])
    return tf.cast(divide(total, divisor), tensors[0].dtype.base_dtype)


def add_pair(left: Any, right: Any) -> Any:
    """Add two dense tensors on the current device, and never join this addition with one beside it.

    A chain of these adds in the order in which it is written. Unlike `sum_tensors`, it may write into a summand that
    nobody else reads.
    """
    total = tf.add(left, right)
    fix_summation_order([total.op])
    return total


def sum_column(column: Sequence[Any], op: ReduceOp) -> Any:
    """Reduce K gradients of one variable to one, on the current device.

    Args:
        column: K dense tensors, or K ``IndexedSlices``.
        op: sum or mean over the towers.

    Returns:
        One gradient of the same kind.
    """
    divisor = op.divisor(len(column))
    if is_sparse(column[0]):
        return concat_slices(column, divisor)
    return sum_tensors(column, divisor)
