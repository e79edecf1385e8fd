"""The neutral reducer: every tower keeps its own gradients.

It stands where a reducer is wanted and nothing is to be reduced, as in asynchronous training, or in a measurement of
what the reduction costs. It is exact for one tower only; with more, towers keep different gradients and drift apart.
"""

from collections.abc import Sequence

from tpack.reduction.base import Column, ReduceOp, Reducer


class IdentityReducer(Reducer):
    """Return the gradients of each tower as they are, neither summed nor averaged."""

    name = "identity"

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return list(columns)

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return list(columns)
