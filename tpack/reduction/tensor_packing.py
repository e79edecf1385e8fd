"""Reduce what a packer makes of the gradients, with any reducer.

The inner reducer is called once, with the packs of all groups, so that one that launches its operations in a fixed
order still sees all of them.
"""

from collections.abc import Callable, Sequence

from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.wrappers.packers import TensorPacker


class TensorPackingReducer(Reducer):
    """Pack the dense gradients of each tower, reduce the packs, and unpack the results; leave sparse ones to ``inner``.

    Args:
        inner: what reduces the packs.
        kind: what the packer does, for the name.
        make_packer: returns a new packer; called for each reduction, and once at the start to check its settings.
    """

    def __init__(self, inner: Reducer, kind: str, make_packer: Callable[[], TensorPacker]) -> None:
        make_packer()
        self._inner = inner
        self._make_packer = make_packer
        self.name = f"{kind}_{inner.name}"

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self._inner._check_dense(columns)

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        if not columns:
            return []
        packer = self._make_packer()
        packed = packer.pack([[(grad, None) for grad in tower] for tower in zip(*columns, strict=True)])
        reduced = self._inner.reduce([[pack for pack, _ in tower] for tower in packed], op)
        unpacked = packer.unpack([[(pack, None) for pack in tower] for tower in reduced])
        return list(zip(*([grad for grad, _ in tower] for tower in unpacked), strict=True))

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return self._inner._reduce_sparse(columns, op)
