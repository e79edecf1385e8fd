"""Reducers in two levels: inside groups of towers, then across one leader of each group.

`CompositeReducer` has an algorithm for each level. Its groups are workers, tasks of the cluster that are named at the
front of a device name; names without job and task belong to one worker, the process itself. Copies are cheap inside a
worker and cross a network between workers, so the traffic between workers must not depend on the number of towers per
worker. Leaders take turns from gradient to gradient, the first one for the last gradient, as the owners in
`RoundRobinReducer` do. Workers may have different numbers of towers; a mean counts each tower.

`HierarchicalReducer` is for machines such as the DGX-1, where the first and the second four GPUs are each fully linked,
with few links between the fours. The first leader sums its half; the second receives that sum, adds its own half and
sends the total back; each leader copies the total to its half. Each total crosses between the halves once each way, for
any K. In the seed both leaders sum at the same time, and the two sums are added. Passing the first sum on reads and
writes less memory and saves one operation.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.sums import copy_slices_to_each, copy_to_each, divide, on_device_of, on_turn, sum_tensors
from tpack.tower.devices import resolve_device
from tpack.tower.grads import Column, Gradient, ReduceOp, map_gradient_values
from tpack.utils.validation import check_arguments

Groups: TypeAlias = Sequence[Sequence[int]]
"""The indices of each worker's towers."""

Worker: TypeAlias = tuple[str | None, int | None, int | None]
"""Job, replica and task of a device; None for those that the name lacks."""


@check_arguments
class CompositeReducer(Reducer):
    """A reducer with ``inner`` inside each worker and ``outer`` across one leader of each.

    Workers follow from the device names of the gradients. One worker uses ``inner`` alone; one tower per worker uses
    ``outer`` alone, apart from the division of a mean. Sparse gradients take the same path, so their rows cross between
    workers once per pair and not once per tower.

    Args:
        inner: the algorithm inside a worker.
        outer: the algorithm across workers, between one tower of each.
        groups: the indices of each worker's towers, instead of those from the device names.

    Raises:
        ConfigError: ``groups`` do not hold each of the indices 0 to K-1 once.

    Source:
        The algorithms with a ``/`` in their names in TensorFlow's ``MultiWorkerAllReduce``.
    """

    def __init__(self, inner: Reducer, outer: Reducer, *, groups: Groups | None = None) -> None:
        if groups is not None:
            indices = sorted(k for group in groups for k in group)
            if not groups or not all(groups) or indices != list(range(len(indices))):
                expected = "each tower from 0 up once, such as [[0, 1], [2, 3]]"
                raise ConfigError(f"CompositeReducer got groups={groups}: expected {expected}")
        self.inner = inner
        self.outer = outer
        self._groups = groups
        self.is_linear = inner.is_linear and outer.is_linear
        self.name = f"{inner.name}/{outer.name}"

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse a tower on several workers, and columns that one of the algorithms refuses."""
        groups = self._groups_of(columns)
        if self._groups is None:
            _check_towers_in_one_worker(columns)
        for group in groups:
            if len(group) > 1:
                self.inner.check(_members(columns, group))
        if len(groups) > 1:
            self.outer.check([[column[k] for k in _leaders(groups, turn)] for turn, column in _turns(columns)])

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """See `Reducer.reduce_dense`."""
        groups = self._groups_of(columns)
        if len(groups) == 1:
            return self.inner.reduce_dense(columns, op)
        return self._reduce_two_levels(columns, groups, op, copy_to_each)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """See `Reducer.reduce_sparse`."""
        groups = self._groups_of(columns)
        if len(groups) == 1:
            return self.inner.reduce_sparse(columns, op)
        return self._reduce_two_levels(columns, groups, op, copy_slices_to_each)

    def _reduce_two_levels(
        self,
        columns: Sequence[Column],
        groups: Groups,
        op: ReduceOp,
        copy: Callable[[Gradient, Column], list[Gradient]],
    ) -> list[Column]:
        divisor = op.divisor(len(columns[0]))
        inside = [self._sum_inside(_members(columns, group)) for group in groups]
        partial = [[sums[n][turn % len(sums[n])] for sums in inside] for n, (turn, _) in enumerate(_turns(columns))]
        totals = self.outer.reduce_columns(partial, ReduceOp.SUM)
        reduced: list[Column] = []
        for (turn, column), column_totals in zip(_turns(columns), totals, strict=True):
            results: dict[int, Gradient] = {}
            for group, leader, total in zip(groups, _leaders(groups, turn), column_totals, strict=True):
                with on_device_of(column[leader]):
                    result = map_gradient_values(lambda values: divide(values, divisor), total)
                results.update(zip(group, copy(result, [column[k] for k in group]), strict=True))
            reduced.append([results[k] for k in range(len(column))])
        return reduced

    def _sum_inside(self, columns: Sequence[Column]) -> Sequence[Column]:
        return self.inner.reduce_columns(columns, ReduceOp.SUM) if len(columns[0]) > 1 else columns

    def _groups_of(self, columns: Sequence[Column]) -> Groups:
        """Return the towers of each worker."""
        if self._groups is None:
            return group_by_worker([gradient.device for gradient in columns[0]])
        num_towers = sum(map(len, self._groups))
        if num_towers != len(columns[0]):
            got = f"the reducer {self.name} got the gradients of {len(columns[0])} towers"
            raise ReductionError(f"{got}: expected {num_towers}, as in its groups")
        return self._groups


def group_by_worker(devices: Sequence[str]) -> list[list[int]]:
    """Return the positions of each worker's devices, both in the order of the list."""
    groups: dict[Worker, list[int]] = {}
    for k, device in enumerate(devices):
        groups.setdefault(worker_of(device), []).append(k)
    return list(groups.values())


def worker_of(device: str) -> Worker:
    """Return the worker of a device name."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task


def _check_towers_in_one_worker(columns: Sequence[Column]) -> None:
    for column in columns:
        for k, (gradient, first) in enumerate(zip(column, columns[0], strict=True)):
            if worker_of(gradient.device) != worker_of(first.device):
                raise ReductionError(
                    f"tower {k} has gradients on different workers, {first.name} on {first.device!r} and "
                    f"{gradient.name} on {gradient.device!r}: expected one worker per tower"
                )


def _members(columns: Sequence[Column], group: Sequence[int]) -> list[Column]:
    return [[column[k] for k in group] for column in columns]


def _turns(columns: Sequence[Column]) -> list[tuple[int, Column]]:
    """Return each column with the number of columns after it."""
    return [(len(columns) - 1 - n, column) for n, column in enumerate(columns)]


def _leaders(groups: Groups, turn: int) -> list[int]:
    return [group[turn % len(group)] for group in groups]


@check_arguments
class HierarchicalReducer(Reducer):
    """A reducer that sums in two halves of the towers with a leader each, for an even number of towers.

    Args:
        devices: the device of each tower; by default those of the gradients.

    Raises:
        ReductionError: The number of devices is odd and not 1, which needs no reduction.

    Source:
        ``allreduce_grads_hierarchical`` of tensorpack's graph builder, after tensorflow/benchmarks.
    """

    name = "hierarchical"

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        if devices is not None and len(devices) != 1:
            _check_towers(len(devices))
        self._devices = None if devices is None else [resolve_device(device) for device in devices]

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse an odd number of towers, and a number other than that of ``devices``."""
        num_towers = len(columns[0])
        _check_towers(num_towers)
        if self._devices is not None and len(self._devices) != num_towers:
            made_for = f"{len(self._devices)}, for its devices {', '.join(self._devices)}"
            raise ReductionError(f"HierarchicalReducer got the gradients of {num_towers} towers: expected {made_for}")

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum each column over both halves; the leaders of the halves rotate."""
        return [self._reduce_column(n, column, op) for n, column in enumerate(columns)]

    def _reduce_column(self, n: int, column: Column, op: ReduceOp) -> Column:
        half = len(column) // 2
        first, second = n % half, n % half + half
        with on_turn(self._devices, column, first):
            partial = sum_tensors(column[:half])
        with on_turn(self._devices, column, second):
            total = sum_tensors([partial, *column[half:]], op.divisor(len(column)))
        with on_turn(self._devices, column, first):
            returned = tf.identity(total)
        return copy_to_each(returned, column[:half]) + copy_to_each(total, column[half:])


def _check_towers(num_towers: int) -> None:
    if num_towers < 2 or num_towers % 2:
        raise ReductionError(f"HierarchicalReducer got {num_towers} towers: expected an even number of at least 2")
