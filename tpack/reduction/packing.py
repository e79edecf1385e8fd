"""Reduce packed gradients with any reducer.

A wrapper: what it wraps is a `Reducer` and so is the result. The packs of a tower are made and taken apart on the
tower's device; between that, the inner reducer sees K lists of a few vectors.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.sums import on_device_of
from tpack.reduction.wrappers.gradient_packer import GradientPacker


class GradientPackingReducer(Reducer):
    """Pack the dense gradients of each tower, reduce the packs, and unpack the results.

    Where packing cannot be done or does not pay (see `GradientPacker.compute_strategy`), one log line says why, and the
    inner reducer works on the gradients themselves. Sparse gradients are never packed.

    Args:
        inner: what reduces the packs.
        num_packs: into how many tensors the gradients of one tower go.

    Source:
        tensorpack's replicated training, which packs for some of its modes.
    """

    def __init__(self, inner: Reducer, num_packs: int = 8) -> None:
        GradientPacker(num_packs)
        self._inner = inner
        self._num_packs = num_packs
        self.name = f"packed_{inner.name}"

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self._inner._check_dense(columns)

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        packer = GradientPacker(self._num_packs)
        towers = [list(tower) for tower in zip(*columns, strict=True)]
        if not packer.compute_strategy(towers[0]):
            return self._inner._reduce_dense(columns, op)
        packs = []
        for tower in towers:
            with on_device_of(tower[0]):
                packs.append(packer.pack(tower))
        unpacked = []
        for tower, reduced in zip(towers, self._inner.reduce(packs, op), strict=True):
            with on_device_of(tower[0]):
                grads = packer.unpack(reduced)
            unpacked.append([_moved(grad, original) for grad, original in zip(grads, tower, strict=True)])
        return [list(column) for column in zip(*unpacked, strict=True)]

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return self._inner._reduce_sparse(columns, op)


def _moved(grad: object, original: object) -> object:
    """Copy one result to the device of the gradient it replaces, which need not be that of the tower's first."""
    with on_device_of(original):
        return tf.identity(grad)
