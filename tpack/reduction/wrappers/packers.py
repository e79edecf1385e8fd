"""What all packers share: groups of gradients become vectors in every tower, and gradients again after the reduction.

A packer only says which gradients form a group. The members of a group have one dtype and lie one after the other in
one vector, on the device of the first member. A group of one is left as it is, because copying it gains nothing.
"""

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Column, ReduceOp
from tpack.reduction.flat import concat_flat, split_flat
from tpack.reduction.gradients import check_columns, is_sparse
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
