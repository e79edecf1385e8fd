"""The contract of every reduction algorithm.

K towers each computed N gradients. A `Reducer` gives every tower the sum or the mean over the towers, on the tower's
own device. What all algorithms share is done here once: checking, splitting into dense and sparse, one tower. An
algorithm only says what happens to dense columns, and may say what happens to sparse ones.
"""

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.reduction.gradients import ReduceOp, check_columns, is_sparse
from tpack.reduction.sums import copy_slices_to_each, on_device_of, sum_column

__all__ = ["Column", "ReduceOp", "Reducer"]

Column = Sequence[Any]
"""The K gradients of one variable, in the order of the towers."""


class Reducer(abc.ABC):
    """Reduce the gradients of K towers and hand every tower the result.

    A reducer holds settings and no state of a graph: one may serve many graphs, and many lists in one graph. One that
    cannot serve what it is given raises; it never uses another algorithm instead.

    A subclass defines `name` and `_reduce_dense`; it overrides `_check_dense` if it has limits, and `_reduce_sparse` if
    it has a better way than concatenating on one device. A reducer that wraps another calls the other's `reduce`, and
    its `_check_dense` for the limits.
    """

    name: str
    """The algorithm, for logs and as the name scope of its operations."""

    def reduce(self, tower_grads: Sequence[Sequence[Any]], op: ReduceOp = ReduceOp.MEAN) -> list[list[Any]]:
        """Reduce K lists of N gradients over the towers.

        Args:
            tower_grads: one list for each tower, in the same order of variables; tensors or ``IndexedSlices``.
            op: sum or mean over the towers.

        Returns:
            K lists of N gradients. Entry [k][n] is on the device of ``tower_grads[k][n]`` and has the same value,
            bit by bit, for every k. With one tower, the gradients themselves.

        Shapes:
            tower_grads: K x N gradients, alike along K; returned: K x N gradients of the same shapes. The first
            dimension of sparse gradients is the sum over the towers.

        Raises:
            ReductionError: The gradients are no full rectangle of alike tensors, integers are to be averaged, or the
                algorithm cannot serve this number of towers, these devices, this dtype or this shape.
        """
        columns = check_columns(tower_grads, op)
        if len(tower_grads) == 1:
            return [list(tower_grads[0])]
        dense = [n for n, column in enumerate(columns) if not is_sparse(column[0])]
        sparse = [n for n, column in enumerate(columns) if is_sparse(column[0])]
        if dense:
            self._check_dense([columns[n] for n in dense])
        reduced: dict[int, Column] = {}
        with tf.name_scope(self.name):
            if dense:
                reduced.update(zip(dense, self._reduce_dense([columns[n] for n in dense], op), strict=True))
            if sparse:
                reduced.update(zip(sparse, self._reduce_sparse([columns[n] for n in sparse], op), strict=True))
        return [[reduced[n][k] for n in range(len(columns))] for k in range(len(tower_grads))]

    @abc.abstractmethod
    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce one or more columns of K >= 2 dense tensors each, which were checked; return as many columns of K."""

    # Most algorithms have no limits, so the default is to do nothing.
    def _check_dense(self, columns: Sequence[Column]) -> None:  # noqa: B027
        """Raise `ReductionError` if the algorithm cannot serve these columns, before the graph is touched."""

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce one or more columns of K >= 2 ``IndexedSlices``: concatenate each on the device of a tower in turn."""
        reduced: list[Column] = []
        for n, column in enumerate(columns):
            with on_device_of(column[n % len(column)]):
                total = sum_column(column, op)
            reduced.append(copy_slices_to_each(total, column))
        return reduced
