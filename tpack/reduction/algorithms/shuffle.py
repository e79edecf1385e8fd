"""Reduce as parameter servers do: each of several devices sums one shard of every gradient.

A gradient is cut into shards. Shard s of all towers is gathered on one device and summed there by one operation; its
total goes back to all towers, which join the totals. ``psgpu`` takes the towers' own devices, ``pscpu`` the first CPU
device of each tower's task (`task_cpus`).

Cost of D bytes on the towers' own K devices: each sends and receives 2(K-1)/K * D bytes, the least of any all-reduce,
in only 2 dependent transfers; in both, each device exchanges a message with every other one, 2(K-1) messages as in a
ring. On S other devices, a tower sends and receives D, and each of them K/S * D bytes. No partial sum travels from
tower to tower, so each byte is written once for K reads: the best sharding algorithm between devices that share memory.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.reduction.base import Reducer
from tpack.reduction.chunking import cut_column, join_column
from tpack.reduction.sums import on_turn, sum_tensors
from tpack.tower.devices import canonical_device, resolve_device
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments, check_count, check_instances


@check_arguments
class ShuffleReducer(Reducer):
    """A reducer that gathers shard s of every gradient on device s, sums it and copies the total to all towers.

    N gradients take ``N * (9 * K + 3 * num_shards)`` operations.

    Args:
        devices: the devices of the sums; by default those of the towers' gradients.
        num_shards: the number of shards per gradient; by default one per device. More are assigned in turn.

    Raises:
        ConfigError: ``devices`` is empty or not a list, or ``num_shards`` is not a positive whole number.

    Source:
        ``"pscpu"`` and ``"psgpu"`` of the seed's all-reduce specs, after tensorflow/benchmarks.
    """

    def __init__(self, devices: Sequence[str] | None = None, num_shards: int | None = None) -> None:
        if devices is not None:
            devices = [resolve_device(each) for each in check_instances(self, "devices", devices, str, least=1)]
        if num_shards is not None:
            check_count(self, "num_shards", num_shards)
        self._devices = devices
        self._num_shards = num_shards
        self.name = "psgpu" if self._devices is None or not _all_cpus(self._devices) else "pscpu"

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum the shards of each column on the devices."""
        return _shuffle(columns, op, self._devices, self._num_shards)


@check_arguments
class CpuShuffleReducer(Reducer):
    """A reducer that sums shards of every gradient on the first CPU device of each task that has one of them.

    Unlike those of `ShuffleReducer`, the devices follow from the gradients of each reduction, so that inside a
    composition one reducer works for every worker, each on its own processor.

    Args:
        num_shards: the number of shards per gradient; by default one per task.

    Raises:
        ConfigError: ``num_shards`` is not a positive whole number.

    Source:
        ``"pscpu"`` of the seed's all-reduce specs, after tensorflow/benchmarks.
    """

    name = "pscpu"

    def __init__(self, num_shards: int | None = None) -> None:
        if num_shards is not None:
            check_count(self, "num_shards", num_shards)
        self._num_shards = num_shards

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum the shards of each column on the processors of its tasks."""
        cpus = task_cpus([tensor.device for column in columns for tensor in column])
        return _shuffle(columns, op, cpus, self._num_shards)


def task_cpus(devices: Sequence[str]) -> list[str]:
    """Return the first CPU device of every task that has one of ``devices``, by canonical name, in their order."""
    specs = [tf.DeviceSpec.from_string(canonical_device(device)) for device in devices]
    return list(dict.fromkeys(str(spec.replace(device_type="CPU", device_index=0).to_string()) for spec in specs))


def _all_cpus(devices: Sequence[str]) -> bool:
    return {tf.DeviceSpec.from_string(device).device_type for device in devices} == {"CPU"}


def _shuffle(
    columns: Sequence[Column], op: ReduceOp, devices: Sequence[str] | None, num_shards: int | None
) -> list[Column]:
    """Sum the shards on ``devices``, or on those of each column."""
    reduced: list[Column] = []
    for n, column in enumerate(columns):
        num_devices = len(column if devices is None else devices)
        totals = []
        for s, pieces in enumerate(cut_column(column, num_shards or num_devices)):
            # The first shards are larger, so their devices change from gradient to gradient.
            with on_turn(devices, column, n + s):
                total = sum_tensors(pieces, op.divisor(len(column)))
            totals.append([total] * len(column))
        reduced.append(join_column(totals, column))
    return reduced
