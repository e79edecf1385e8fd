"""Reduce inside each worker, then across the workers, then hand the total on inside each worker.

A worker is a task of the cluster, which is named in front of a device; names without job and task are all of one
worker, the process itself. Inside a worker copies are cheap, and between workers they cross a network, so each level
gets the algorithm that suits it. Only one tower of each worker, the leader, takes part in the second level: a gradient
crosses the network as often as the outer algorithm sends it for one tower per worker, however many towers a worker has.
Leaders take turns from gradient to gradient, the first one for the last gradient, which is also the owner that
`RoundRobinReducer` inside the worker has for it. Workers may have different numbers of towers, and a mean counts each
tower.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.sums import copy_slices_to_each, copy_to_each, divide, on_device_of
from tpack.tower.grads import Column, Gradient, ReduceOp, map_gradient_values
from tpack.utils.validation import check_arguments

Groups: TypeAlias = Sequence[Sequence[int]]
"""For each worker the indices of its towers."""

Worker: TypeAlias = tuple[str | None, int | None, int | None]
"""Job, replica and task of a device; each is None where the name says nothing."""


@check_arguments
class CompositeReducer(Reducer):
    """Reduce with ``inner`` inside each worker and with ``outer`` across one leader of each.

    Workers are read from the device names of the gradients. With one worker, all is done by ``inner``; with one tower
    on each, all but the division of a mean by ``outer``. Sparse gradients take the same way, so their rows cross
    between workers once for each pair and not once for each tower.

    Args:
        inner: the algorithm inside a worker.
        outer: the algorithm across workers; it sees one tower for each worker.
        groups: for each worker the indices of its towers, instead of reading them from the device names.

    Raises:
        ConfigError: ``groups`` do not hold each of the indices 0 to K-1 once.

    Source:
        The algorithms with a ``/`` in their names in TensorFlow's ``MultiWorkerAllReduce``.
    """

    def __init__(self, inner: Reducer, outer: Reducer, *, groups: Groups | None = None) -> None:
        if groups is not None:
            _check_groups(groups)
        self.inner = inner
        self.outer = outer
        self._groups = groups
        self.name = f"{inner.name}/{outer.name}"

    def check(self, columns: Sequence[Column]) -> None:
        """Check that each tower is on one worker, and that both algorithms can serve them.

        Raises:
            ReductionError: They cannot.
        """
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
        """Return the towers of each worker, which for sparse gradients may be different numbers."""
        if self._groups is None:
            return group_by_worker([gradient.device for gradient in columns[0]])
        num_towers = sum(map(len, self._groups))
        if num_towers != len(columns[0]):
            raise ReductionError(
                f"the reducer {self.name} was made for groups of {num_towers} towers in all and got the gradients of "
                f"{len(columns[0])} towers"
            )
        return self._groups


def group_by_worker(devices: Sequence[str]) -> list[list[int]]:
    """Return for each worker the positions of its devices, both in the order of the list."""
    groups: dict[Worker, list[int]] = {}
    for k, device in enumerate(devices):
        groups.setdefault(worker_of(device), []).append(k)
    return list(groups.values())


def worker_of(device: str) -> Worker:
    """Return the worker that a device name belongs to."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task


def _check_groups(groups: Groups) -> None:
    indices = sorted(k for group in groups for k in group)
    if not groups or not all(groups) or indices != list(range(len(indices))):
        raise ConfigError(
            f"expected groups that hold each tower from 0 up once, such as [[0, 1], [2, 3]], got {groups}"
        )


def _check_towers_in_one_worker(columns: Sequence[Column]) -> None:
    for column in columns:
        for k, (gradient, first) in enumerate(zip(column, columns[0], strict=True)):
            if worker_of(gradient.device) != worker_of(first.device):
                raise ReductionError(
                    f"the gradients of tower {k} are on different workers, {first.name} on {first.device!r} and "
                    f"{gradient.name} on {gradient.device!r}: a reduction in two levels needs a tower to be on one"
                )


def _members(columns: Sequence[Column], group: Sequence[int]) -> list[Column]:
    return [[column[k] for k in group] for column in columns]


def _turns(columns: Sequence[Column]) -> list[tuple[int, Column]]:
    """Return each column with the number of columns after it."""
    return [(len(columns) - 1 - n, column) for n, column in enumerate(columns)]


def _leaders(groups: Groups, turn: int) -> list[int]:
    return [group[turn % len(group)] for group in groups]
