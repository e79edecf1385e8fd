"""Reduce every value on one device, then copy the result: the cross-tower operations that serve everything."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.aggregation import reduce_op_of
from tpack.distribute.contributions import Contributions, gather_contributions
from tpack.distribute.cross_tower_ops import CrossTowerOps
from tpack.distribute.destinations import get_devices_from
from tpack.distribute.values import DistributedValues, Mirrored
from tpack.reduction.gradients import ReduceOp, check_columns, is_sparse
from tpack.reduction.sums import concat_slices, divide, on_device, sum_tensors
from tpack.tower.devices import resolve_device

AccumulationFn = Callable[[Sequence[Any]], Any]


class ReductionToOneDeviceCrossTowerOps(CrossTowerOps):
    """Reduce to one device first and copy the result from there; several values one after the other.

    Args:
        reduce_to_device: where to reduce; by default on the first device of each value's destinations.
        accumulation_fn: sums a list of dense tensors; by default they are added in a fixed order, those of 16 bits in
            float32. ``IndexedSlices`` are concatenated and never given to it.

    Raises:
        ConfigError: The name of the device cannot be read.
        DeviceError: The machine has GPUs, and not this one.

    Source:
        The class of this name in the seed's ``cross_tower_ops``.
    """

    def __init__(self, reduce_to_device: str | None = None, accumulation_fn: AccumulationFn | None = None) -> None:
        self._reduce_to_device = None if reduce_to_device is None else resolve_device(reduce_to_device)
        self._accumulation_fn = accumulation_fn

    def _reduce(self, aggregation: Any, per_device_value: DistributedValues, destinations: Any) -> Mirrored:
        devices = get_devices_from(destinations)
        reduced = reduce_on_device(
            gather_contributions(per_device_value),
            reduce_op_of(aggregation),
            devices[0] if self._reduce_to_device is None else self._reduce_to_device,
            self._accumulation_fn,
        )
        return self.broadcast(reduced, devices)

    def _batch_reduce(
        self, aggregation: Any, value_destination_pairs: Sequence[tuple[DistributedValues, Any]]
    ) -> list[Mirrored]:
        return [self._reduce(aggregation, value, destinations) for value, destinations in value_destination_pairs]


def reduce_on_device(
    contributions: Contributions, op: ReduceOp, device: str, accumulation_fn: AccumulationFn | None = None
) -> Any:
    """Reduce what several devices brought, on one device.

    Args:
        contributions: the summands. A mean is over the values that they were made of.
        op: sum or mean.
        device: where.
        accumulation_fn: as for `ReductionToOneDeviceCrossTowerOps`.

    Returns:
        A tensor, or ``IndexedSlices`` if the summands are.

    Shapes:
        As those of the summands, which are alike; the rows of ``IndexedSlices`` are those of all devices.

    Raises:
        ReductionError: The summands differ, or integers are to be averaged.

    Source:
        ``_simple_reduce`` of the seed's ``cross_tower_ops``.
    """
    column = list(contributions.by_device.values())
    check_columns([[summand] for summand in column], op)
    divisor = op.divisor(contributions.num_values)
    with tf.name_scope("reduce_on_device"), on_device(device):
        if is_sparse(column[0]):
            return concat_slices(column, divisor)
        if accumulation_fn is not None:
            return divide(accumulation_fn(column), divisor)
        return sum_tensors(column, divisor)
