"""Concatenate all gradients of a tower and cut the result into packs of one size, wherever variables end.

What `GradientPacker` does under conditions, this does always: for unknown static shapes, for several dtypes (each in
packs of its own), and for more packs than elements. The cost is the same: nothing is reduced before the last gradient
is ready, and two more passes over the memory.
"""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Column, Reducer
from tpack.reduction.flat import concat_flat, split_evenly, split_flat
from tpack.reduction.sums import on_device_of
from tpack.reduction.tensor_packing import TensorPackingReducer
from tpack.reduction.wrappers.packers import TensorPacker


class ConcatAndSplitPacker(TensorPacker):
    """Pack gradients into ``num_packs`` vectors for each dtype among them.

    The packs have one size, but for the last, which takes what is left over; there may be empty ones.

    Args:
        num_packs: the number of packs.

    Raises:
        ConfigError: ``num_packs`` is less than 1.

    Example:
        ::

            packer = ConcatAndSplitPacker(num_packs=2)
            packs = packer.pack(grads_and_vars_of_towers)
            grads_and_vars_of_towers = packer.unpack(my_reduction(packs))

    Source:
        The packer of this name in the seed's ``cross_tower_ops``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 1:
            raise ConfigError(f"wanted 1 pack or more, got {num_packs}")
        super().__init__()
        self._packs_per_group = num_packs

    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for n, column in enumerate(columns):
            groups.setdefault(column[0].dtype.base_dtype, []).append(n)
        return list(groups.values())

    def _pack_group(self, grads: Sequence[Any]) -> list[Any]:
        with on_device_of(grads[0]):
            return split_evenly(concat_flat(grads), self._packs_per_group)

    def _unpack_group(self, packs: Sequence[Any], originals: Sequence[Any]) -> list[Any]:
        with on_device_of(packs[0]):
            return split_flat(tf.concat(list(packs), axis=0), originals)


class ConcatAndSplitPackingReducer(TensorPackingReducer):
    """Reduce the packs that `ConcatAndSplitPacker` makes of the dense gradients.

    Args:
        inner: what reduces the packs.
        num_packs: the number of packs for each dtype.

    Raises:
        ConfigError: ``num_packs`` is less than 1.

    Source:
        The seed's ``AllReduceCrossTowerOps`` with ``num_packs``.
    """

    def __init__(self, inner: Reducer, num_packs: int = 1) -> None:
        super().__init__(inner, "concat_split", functools.partial(ConcatAndSplitPacker, num_packs))
