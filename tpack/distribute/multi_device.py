"""Base of strategies with a list of devices: one tower on each device, and values of all of them.

Their data are one stream: step s gives tower k element s * K + k, an element being what a tower works on, usually a
batch. What is left at the end for fewer than K towers is dropped. Towers on CPU devices read the stream on the host,
where the data is. For other devices, elements wait on the device in a buffer that is filled while earlier steps run.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import make_multi_device_iterator
from tpack.distribute.cross_tower_ops import (
    CrossTowerOps,
    ReductionToOneDeviceCrossTowerOps,
    as_dense_or_slices,
    get_devices_from,
)
from tpack.distribute.multi_step import MultiStepContext, run_steps
from tpack.distribute.replica_context import call_in_strategy_towers, seen_by_tensorflow
from tpack.distribute.strategy import DatasetFn, DistributionStrategy, StepFn, takes_first_tower
from tpack.distribute.values import (
    Aggregation,
    Destinations,
    DistributedValues,
    MapOutput,
    PerDevice,
    Structure,
    Value,
    Variable,
    reduce_op_of,
    regroup,
    update_on_devices,
)
from tpack.errors import ConfigError, StrategyError
from tpack.graph_copy.towers import TowerBuilding, check_tower_building
from tpack.reduction.gradients import check_columns
from tpack.reduction.sums import on_device
from tpack.tower.devices import resolve_device, resolve_devices, resolve_together
from tpack.tower.grads import ReduceOp, map_gradient_values
from tpack.utils.validation import check_arguments, check_count, check_instance, check_instances, mismatch

_HOST = "/device:CPU:0"

_USUAL_PREFETCH = 2


@check_arguments
class PerDeviceDataset:
    """Dataset whose elements are dealt out to K devices.

    Args:
        dataset: the stream.
        devices: the device of each tower.
        prefetch_on_device: the elements that wait on each device; True for 2 and False for none; None for 2, and for
            none where all devices are CPUs, whose memory is the host's.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: There is no device, or the number is negative.

    Source:
        TensorFlow's ``contrib.distribute``.
    """

    def __init__(
        self,
        dataset: tf.compat.v2.data.Dataset,
        devices: Sequence[str],
        *,
        prefetch_on_device: bool | int | None = None,
    ) -> None:
        self._dataset = dataset
        names = [devices] if isinstance(devices, str) else devices
        wanted = "a list of names of devices"
        names = check_instances(self, "devices", names, str, least=1, expected=wanted)
        self._devices = list(dict.fromkeys(resolve_together(names)))
        if prefetch_on_device is None:
            kinds = {tf.DeviceSpec.from_string(device).device_type for device in self._devices}
            prefetch_on_device = kinds != {"CPU"}
        self._prefetch = checked_prefetch(self, prefetch_on_device)

    @property
    def devices(self) -> list[str]:
        """The devices of the towers, in their order."""
        return list(self._devices)

    def make_one_shot_iterator(self) -> "PerDeviceIterator":
        """Return an iterator over the stream, once; with prefetching, ``tf.tables_initializer()`` starts it."""
        if not self._prefetch:
            with on_device(_HOST):
                return _HostIterator(tf.data.make_one_shot_iterator(self._dataset), self._devices)
        iterator = _DeviceIterator(self._dataset, self._devices, self._prefetch)
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator

    def make_initializable_iterator(self) -> "PerDeviceIterator":
        """Return an iterator whose ``initializer`` restarts the stream."""
        if not self._prefetch:
            with on_device(_HOST):
                return _HostIterator(tf.data.make_initializable_iterator(self._dataset), self._devices)
        return _DeviceIterator(self._dataset, self._devices, self._prefetch)


class MultiDeviceStrategy(DistributionStrategy):
    """Base of strategies that build a tower on each of a list of devices; a subclass decides on the variables.

    A value that is the same for all towers counts once for each of them when it is reduced: its mean is the value and
    its sum K times the value.

    Args:
        cross_tower_ops: reduces and broadcasts values. None for the strategy's choice on first use: by default, one
            device.
        prefetch_on_device: the elements of a dataset that wait on each device; see `PerDeviceDataset`.
        tower_building: see `call_in_replicated_towers`.

    Source:
        The mirrored strategy of the seed ``distribute``, which refuses to sum a value that is the same for all towers.
    """

    def __init__(
        self,
        cross_tower_ops: CrossTowerOps | None = None,
        *,
        prefetch_on_device: bool | int | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__()
        self._tower_building = check_tower_building(self, tower_building)
        if cross_tower_ops is not None:
            check_instance(self, "cross_tower_ops", cross_tower_ops, CrossTowerOps)
        self._cross_tower_ops = cross_tower_ops
        self._prefetch_on_device = None if prefetch_on_device is None else checked_prefetch(self, prefetch_on_device)

    @property
    def tower_building(self) -> TowerBuilding:
        """The way to build the third tower and all that follow; see `call_in_replicated_towers`."""
        return self._tower_building

    @property
    def cross_tower_ops(self) -> CrossTowerOps:
        """The operations that reduce and broadcast values."""
        if self._cross_tower_ops is None:
            self._cross_tower_ops = self._choose_cross_tower_ops()
        return self._cross_tower_ops

    def _choose_cross_tower_ops(self) -> CrossTowerOps:
        return ReductionToOneDeviceCrossTowerOps()

    @property
    def num_towers(self) -> int:
        """K, one for each worker device; those of all workers where towers of several keep the same variables."""
        return len(self.worker_devices)

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that variables are on; here those of the towers."""
        return list(self.worker_devices)

    def non_slot_devices(self, var_list: Sequence[Variable]) -> Destinations:
        """Return all devices that variables are on."""
        return list(self.parameter_devices)

    def _worker_device_index(self) -> PerDevice | int:
        if self.num_towers == 1 or len(self.worker_devices) == 1:
            return 0
        return PerDevice({device: number for number, device in enumerate(self.worker_devices)})

    def read_var(self, v: Variable) -> tf.Tensor:
        """Return the value of a variable, on the current device; of a tower-local one, the aggregate over towers."""
        return tf.identity(v._get_cross_tower() if isinstance(v, PerDevice) else v)

    def _distribute_dataset(self, dataset_fn: DatasetFn) -> PerDeviceDataset:
        dataset = self._call_dataset_fn(dataset_fn)
        return PerDeviceDataset(dataset, self.worker_devices, prefetch_on_device=self._prefetch_on_device)

    def _run_steps_on_dataset(
        self, fn: StepFn, iterator: Any, iterations: int, initial_loop_values: Mapping[str, Structure]
    ) -> MultiStepContext:
        return run_steps(self, fn, iterator, iterations, initial_loop_values)

    def _call_for_each_tower(self, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        build = seen_by_tensorflow(fn)
        return call_in_strategy_towers(
            self, self.worker_devices, build, args, kwargs, tower_building=self._tower_building
        )

    def _broadcast(self, tensor: Value, destinations: Destinations | None) -> Value:
        return self.cross_tower_ops.broadcast(tensor, self._or_workers(destinations))

    def _reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None) -> Value:
        if isinstance(value, PerDevice) and takes_first_tower(aggregation):
            to = value if destinations is None else destinations
            return self.cross_tower_ops.broadcast(value.get(self.worker_devices[0]), to)
        if isinstance(value, PerDevice):
            return self.cross_tower_ops.reduce(aggregation, value, value if destinations is None else destinations)
        if isinstance(value, list | tuple | dict | MapOutput):
            raise ConfigError(f"reduce got the {type(value).__name__} {value!r}: expected one value")
        if isinstance(value, DistributedValues):
            raise StrategyError(f"reduce got the mirrored {value!r}: expected a value that differs between towers")
        is_sum = not takes_first_tower(aggregation) and reduce_op_of(aggregation) is ReduceOp.SUM
        if is_sum:
            value = as_dense_or_slices(value)
            check_columns([[value]], ReduceOp.SUM)
            if self.num_towers > 1:
                value = map_gradient_values(lambda values: values * self.num_towers, value)
        return self.cross_tower_ops.broadcast(value, self._or_workers(destinations))

    def _batch_reduce(
        self, aggregation: Aggregation, value_destination_pairs: Sequence[tuple[Value, Destinations | None]]
    ) -> list[Value]:
        is_at_once = all(isinstance(value, PerDevice) for value, _ in value_destination_pairs)
        if takes_first_tower(aggregation) or not is_at_once:
            return super()._batch_reduce(aggregation, value_destination_pairs)
        pairs = [(value, value if to is None else to) for value, to in value_destination_pairs]
        return list(self.cross_tower_ops.batch_reduce(aggregation, pairs))

    def _update(self, var: Variable, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure) -> Structure:
        parts = var.index if isinstance(var, DistributedValues) else {var.device: var}
        return update_on_devices(fn, {device: (part,) for device, part in parts.items()}, args, kwargs)

    def _update_non_slot(
        self, colocate_with: Destinations, fn: Callable[..., Structure], *args: Structure, **kwargs: Structure
    ) -> Structure:
        return update_on_devices(fn, {device: () for device in get_devices_from(colocate_with)}, args, kwargs)

    def _or_workers(self, destinations: Destinations | None) -> Destinations:
        return self.worker_devices if destinations is None else destinations


def worker_devices_of(num_gpus_per_worker: int, devices: Sequence[str] | None) -> list[str]:
    """Return the device of each tower: ``num_gpus_per_worker`` GPUs, 0 for the CPU, or the given devices.

    Raises:
        ConfigError: Both are given, the number is negative, or the list is empty or has a device twice.
        DeviceError: The machine has GPUs, but not one of these.

    Source:
        The strategies of TensorFlow's ``contrib.distribute`` take the number.
    """
    if devices is not None and num_gpus_per_worker:
        raise ConfigError(f"a strategy got {devices=} and {num_gpus_per_worker=}: expected one of them")
    if devices is not None:
        return different_devices(devices)
    check_count("a strategy", "num_gpus_per_worker", num_gpus_per_worker, minimum=0)
    return list(resolve_devices(num_gpus_per_worker)) if num_gpus_per_worker else [resolve_device(-1)]


def different_devices(devices: Sequence[str]) -> list[str]:
    """Return the names of devices, spelled as those of values.

    Raises:
        ConfigError: It is not a list, or empty, or has a device twice.
        DeviceError: The machine has GPUs, but not one of these.
    """
    wanted = "a list of one or more different devices"
    names = resolve_together(check_instances("a strategy", "devices", devices, str, least=1, expected=wanted))
    if len(set(names)) < len(names):
        raise ConfigError(mismatch("a strategy", "devices", list(devices), wanted))
    return names


def checked_prefetch(owner: object, prefetch_on_device: bool | int) -> int:
    """Return the number of prefetched elements.

    Raises:
        WrongTypeError: It is neither a bool nor an integer.
        ConfigError: It is negative.
    """
    if isinstance(prefetch_on_device, bool):
        return _USUAL_PREFETCH if prefetch_on_device else 0
    return check_count(owner, "prefetch_on_device", prefetch_on_device, minimum=0)


class PerDeviceIterator(abc.ABC):
    """Iterator over the elements of all towers."""

    @property
    @abc.abstractmethod
    def initializer(self) -> tf.Operation:
        """The operation that restarts the stream."""

    @abc.abstractmethod
    def get_next(self) -> Structure:
        """Return the next element of every tower: the structure of an element, with values of all devices.

        Every run of any part takes an element for each tower. With fewer left, it fails with an ``OutOfRangeError``.
        """


class _HostIterator(PerDeviceIterator):
    """K reads from one iterator, one after the other."""

    def __init__(self, iterator: tf.data.Iterator, devices: Sequence[str]) -> None:
        self._iterator = iterator
        self._devices = devices

    @property
    def initializer(self) -> tf.Operation:
        try:
            return self._iterator.initializer
        except ValueError as error:
            raise StrategyError("a one-shot iterator cannot be started anew: make an initializable one") from error

    def get_next(self) -> Structure:
        read: list[Structure] = []
        with tf.name_scope("per_device_next"), on_device(_HOST):
            for _ in self._devices:
                with tf.control_dependencies(_components(read[-1:])[:1]):
                    read.append(self._iterator.get_next())
            # Reading one tower's element reads all, so that towers stay in step.
            with tf.control_dependencies(_components(read[-1:])[:1]):
                placed = {d: _on_device(element, d) for d, element in zip(self._devices, read, strict=True)}
        return regroup(placed)


class _DeviceIterator(PerDeviceIterator):
    """TensorFlow's iterator over several devices, with a buffer on each."""

    def __init__(self, dataset: tf.compat.v2.data.Dataset, devices: Sequence[str], buffer_size: int) -> None:
        self._devices = devices
        with on_device(_HOST):
            self._iterator = make_multi_device_iterator(dataset, devices, buffer_size)

    @property
    def initializer(self) -> tf.Operation:
        return self._iterator.initializer

    def get_next(self) -> Structure:
        with tf.name_scope("per_device_next"):
            elements = self._iterator.get_next()
            with tf.control_dependencies([_components([element])[0] for element in elements]):
                placed = {d: _on_device(element, d) for d, element in zip(self._devices, elements, strict=True)}
        return regroup(placed)


def _components(elements: Sequence[Structure]) -> list[tf.Tensor]:
    """Return the tensors of elements, with those of sparse tensors and the like."""
    return tf.nest.flatten(elements, expand_composites=True)


def _on_device(element: Structure, device: str) -> Structure:
    with on_device(device):
        return tf.nest.map_structure(tf.identity, element, expand_composites=True)
