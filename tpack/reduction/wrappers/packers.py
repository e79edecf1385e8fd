"""What all packers share: groups of gradients become vectors in every tower, and gradients again after the reduction.

A packer only says which gradients form a group. The members of a group have one dtype and lie one after the other in
one vector, on the device of the first member. A group of one is left as it is, because copying it gains nothing.

Reduce what a packer makes of the gradients, with any reducer.

The inner reducer is called once, with the packs of all groups, so that one that launches its operations in a fixed
order still sees all of them.

Concatenate all gradients of a tower and cut the result into packs of one size, wherever variables end.

What `GradientPacker` does under conditions, this does always: for unknown static shapes, for several dtypes (each in
packs of its own), and for more packs than elements. The cost is the same: nothing is reduced before the last gradient
is ready, and two more passes over the memory.

Join runs of small gradients, and leave the large ones alone.

Most gradients of a network are small (biases, normalization), and each costs the fixed time of a reduction. Joining
them saves that time and copies next to nothing. As a run holds neighbours, which become ready at about the same time,
reduction still starts before the backward pass ends.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.gradients import check_columns, is_sparse
from tpack.reduction.slicing import concat_flat, split_evenly, split_flat, static_bytes
from tpack.reduction.sums import on_device_of

GradsAndVars = list[tuple[Any, Any]]
"""The (gradient, variable) pairs of one tower."""


class TensorPacker(abc.ABC):
    """Pack the (gradient, variable) lists of K towers, and unpack what a reduction made of the packs.

    A packer remembers what it packed last. A subclass defines `_group`; it overrides `_pack_group`, `_unpack_group` and
    `_packs_per_group` if a group becomes several packs.
    """

    _packs_per_group = 1

    def __init__(self) -> None:
        self._towers: list[GradsAndVars] = []
        self._groups: list[list[int]] = []

    def pack(self, grouped_grads_and_vars: Sequence[Sequence[tuple[Any, Any]]]) -> list[GradsAndVars]:
        """Pack the gradients of every tower on its device.

        Args:
            grouped_grads_and_vars: for each tower a list of (gradient, variable).

        Returns:
            For each tower a list of (pack, None); what was left as it is comes with its variable.

        Shapes:
            grouped_grads_and_vars: K x N x 2; returned: K x number of packs x 2.

        Raises:
            ReductionError: The gradients differ between the towers, or one is ``IndexedSlices``.
        """
        towers = [list(tower) for tower in grouped_grads_and_vars]
        columns = check_columns([[grad for grad, _ in tower] for tower in towers], ReduceOp.SUM)
        for n, column in enumerate(columns):
            if is_sparse(column[0]):
                raise ReductionError(f"gradient {n} ({column[0].name}) is IndexedSlices: wanted dense tensors to pack")
        self._towers, self._groups = towers, self._group(columns)
        with tf.name_scope("pack"):
            return [self._pack_tower(tower) for tower in towers]

    def unpack(self, summed_device_grad_packs: Sequence[Sequence[tuple[Any, Any]]]) -> list[GradsAndVars]:
        """Take reduced packs apart into gradients, each on the device of the gradient that it replaces.

        Args:
            summed_device_grad_packs: for each tower the list of (pack, anything) in the order of `pack`.

        Returns:
            For each tower a list of (gradient, variable), in the order and with the variables that `pack` was given.

        Shapes:
            summed_device_grad_packs: K x number of packs x 2; returned: K x N x 2.

        Raises:
            ReductionError: The number of towers or of packs is not the one that `pack` returned.
        """
        wanted = [len(self._groups) * self._packs_per_group] * len(self._towers)
        got = [len(packs) for packs in summed_device_grad_packs]
        if not wanted or got != wanted:
            raise ReductionError(f"wanted the packs that pack() made, {wanted} in each tower, got {got}")
        with tf.name_scope("unpack"):
            return [
                self._unpack_tower([pack for pack, _ in packs], tower)
                for packs, tower in zip(summed_device_grad_packs, self._towers, strict=True)
            ]

    @abc.abstractmethod
    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        """Return groups of indices of columns of one dtype; each column is in exactly one."""

    def _pack_group(self, grads: Sequence[Any]) -> list[Any]:
        """Make one tower's gradients of one group to ``_packs_per_group`` tensors."""
        if len(grads) == 1:
            return list(grads)
        with on_device_of(grads[0]):
            return [concat_flat(grads)]

    def _unpack_group(self, packs: Sequence[Any], originals: Sequence[Any]) -> list[Any]:
        """Undo `_pack_group` after the reduction."""
        if len(originals) == 1:
            return list(packs)
        with on_device_of(packs[0]):
            return split_flat(packs[0], originals)

    def _pack_tower(self, tower: GradsAndVars) -> GradsAndVars:
        packed: GradsAndVars = []
        for group in self._groups:
            grad, variable = tower[group[0]]
            packs = self._pack_group([tower[n][0] for n in group])
            packed.extend((pack, variable if pack is grad else None) for pack in packs)
        return packed

    def _unpack_tower(self, packs: Sequence[Any], tower: GradsAndVars) -> GradsAndVars:
        unpacked = list(tower)
        for g, group in enumerate(self._groups):
            begin = g * self._packs_per_group
            grads = self._unpack_group(packs[begin : begin + self._packs_per_group], [tower[n][0] for n in group])
            for n, grad in zip(group, grads, strict=True):
                unpacked[n] = (grad, tower[n][1])
        return unpacked


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


class AggregateSmallTensorPacker(TensorPacker):
    """Pack each run of consecutive small gradients of one dtype into one vector, in the place of the run.

    Gradients of unknown size are left alone, as large ones are.

    Args:
        agg_small_grads_max_bytes: the largest size of a gradient that is packed, in bytes.
        agg_small_grads_max_group: how many gradients go into one vector at most.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The packer of this name in the seed's ``cross_tower_ops``, which packs float32 only and puts the packs first.
    """

    def __init__(self, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16) -> None:
        if agg_small_grads_max_bytes < 1 or agg_small_grads_max_group < 1:
            raise ConfigError(
                "wanted agg_small_grads_max_bytes and agg_small_grads_max_group of 1 or more, got "
                f"{agg_small_grads_max_bytes} and {agg_small_grads_max_group}"
            )
        super().__init__()
        self._max_bytes = agg_small_grads_max_bytes
        self._max_group = agg_small_grads_max_group

    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        groups: list[list[int]] = []
        dtype_of_run = None
        for n, column in enumerate(columns):
            dtype = column[0].dtype.base_dtype if static_bytes(column) <= self._max_bytes else None
            if dtype is not None and dtype == dtype_of_run and len(groups[-1]) < self._max_group:
                groups[-1].append(n)
            else:
                groups.append([n])
            dtype_of_run = dtype
        return groups


class AggregateSmallTensorPackingReducer(TensorPackingReducer):
    """Reduce what `AggregateSmallTensorPacker` makes of the dense gradients.

    Args:
        inner: what reduces the joined and the large gradients.
        agg_small_grads_max_bytes: the largest size of a gradient that is packed, in bytes.
        agg_small_grads_max_group: how many gradients go into one vector at most.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The seed's ``AllReduceCrossTowerOps`` with ``agg_small_grads_max_bytes``.
    """

    def __init__(
        self, inner: Reducer, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16
    ) -> None:
        make_packer = functools.partial(
            AggregateSmallTensorPacker, agg_small_grads_max_bytes, agg_small_grads_max_group
        )
        super().__init__(inner, "small_tensors", make_packer)
