"""What strategies with a list of devices have in common: one tower on each device, and values of all of them."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.cross_tower_ops import CrossTowerOps, as_dense_or_slices, get_devices_from
from tpack.distribute.meeting import call_in_strategy_towers
from tpack.distribute.per_device_dataset import PerDeviceDataset
from tpack.distribute.reducer_ops import choose_the_best
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.values import DistributedValues, MapOutput, PerDevice, reduce_op_of, update_on_devices
from tpack.errors import ConfigError, StrategyError
from tpack.reduction.gradients import ReduceOp, check_columns


class DeviceListStrategy(DistributionStrategy):
    """Builds a tower on each of a list of devices, and moves values between them; a subclass says what variables are.

    A value that is the same for all towers, being none of several devices, counts once for each of them when it is
    reduced: its mean is the value and its sum K times the value.

    Args:
        cross_tower_ops: reduces and broadcasts values. None for what `choose_the_best` chooses when it is first needed,
            with the session config that `configure` was given by then.
        prefetch_on_device: how many elements of a dataset wait on each device; see `PerDeviceDataset`.

    Source:
        The mirrored strategy that the seed ``distribute`` describes, which refuses to sum a value that is the same for
        all towers.
    """

    def __init__(self, cross_tower_ops: CrossTowerOps | None = None, *, prefetch_on_device: int | None = None) -> None:
        super().__init__()
        self._cross_tower_ops = cross_tower_ops
        self._prefetch_on_device = prefetch_on_device
        self._session_config: Any = None

    @property
    def cross_tower_ops(self) -> CrossTowerOps:
        """What reduces and broadcasts values."""
        if self._cross_tower_ops is None:
            self._cross_tower_ops = choose_the_best(self.worker_devices, self._session_config)
        return self._cross_tower_ops

    def configure(self, session_config: Any = None) -> None:
        """Choose what suits a session of this ``ConfigProto``, if nothing was chosen yet."""
        self._session_config = session_config

    @property
    def num_towers(self) -> int:
        """K, one for each worker device."""
        return len(self.worker_devices)

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that variables are on; here those of the towers."""
        return list(self.worker_devices)

    def non_slot_devices(self, var_list: Sequence[Any]) -> Any:
        """Return all devices that variables are on."""
        return list(self.parameter_devices)

    def _worker_device_index(self) -> Any:
        if self.num_towers == 1:
            return 0
        return PerDevice({device: number for number, device in enumerate(self.worker_devices)})

    def _read_var(self, v: Any) -> Any:
        return tf.identity(v._get_cross_tower() if isinstance(v, PerDevice) else v)

    def _distribute_dataset(self, dataset_fn: Callable[[], Any]) -> Any:
        dataset = self._call_dataset_fn(dataset_fn)
        return PerDeviceDataset(dataset, self.worker_devices, prefetch_on_device=self._prefetch_on_device)

    def _call_for_each_tower(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return call_in_strategy_towers(self, self.worker_devices, fn, args, kwargs)

    def _broadcast(self, tensor: Any, destinations: Any) -> Any:
        return self.cross_tower_ops.broadcast(tensor, self._or_workers(destinations))

    def _reduce(self, aggregation: Any, value: Any, destinations: Any) -> Any:
        if isinstance(value, PerDevice):
            return self.cross_tower_ops.reduce(aggregation, value, value if destinations is None else destinations)
        if isinstance(value, list | tuple | dict | MapOutput):
            raise ConfigError(f"wanted one value to reduce, got the {type(value).__name__} {value!r}")
        if isinstance(value, DistributedValues):
            raise StrategyError(f"wanted a value that differs between towers to reduce, got {value!r}: it is mirrored")
        op = reduce_op_of(aggregation)
        total = _summed(value, self.num_towers) if op is ReduceOp.SUM else value
        return self.cross_tower_ops.broadcast(total, self._or_workers(destinations))

    def _batch_reduce(self, aggregation: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        if not all(isinstance(value, PerDevice) for value, _ in value_destination_pairs):
            return super()._batch_reduce(aggregation, value_destination_pairs)
        pairs = [(value, value if to is None else to) for value, to in value_destination_pairs]
        return list(self.cross_tower_ops.batch_reduce(aggregation, pairs))

    def _update(self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        parts = var.index if isinstance(var, DistributedValues) else {var.device: var}
        return update_on_devices(fn, {device: (part,) for device, part in parts.items()}, args, kwargs)

    def _update_non_slot(self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return update_on_devices(fn, {device: () for device in get_devices_from(colocate_with)}, args, kwargs)

    def _or_workers(self, destinations: Any) -> Any:
        return self.worker_devices if destinations is None else destinations


def _summed(value: Any, count: int) -> Any:
    """Return the sum of so many values that are the same."""
    value = as_dense_or_slices(value)
    check_columns([[value]], ReduceOp.SUM)
    if count == 1:
        return value
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(value.values * count, value.indices, value.dense_shape)
    return value * count
