"""Sum or average one column of gradients with one ``add_n`` and at most one division, wherever the caller stands.

Each run of a graph adds in the same order, so that a run can be repeated bit by bit. TensorFlow alone does not promise
that: see `fix_summation_order`. The order is one that TensorFlow takes from the names of the gradients.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import fix_summation_order
from tpack.reduction.columns import is_sparse
from tpack.reduction.dividing import divide
from tpack.reduction.reduce_op import ReduceOp
from tpack.reduction.sparse import concat_slices


def sum_tensors(tensors: Sequence[Any]) -> Any:
    """Sum dense tensors on the current device, in the same order in every run."""
    total = tf.add_n(list(tensors))
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
    return divide(sum_tensors(column), divisor)
