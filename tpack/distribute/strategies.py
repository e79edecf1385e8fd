"""Strategies with several devices: mirrored variables, one copy of each variable, or everything on one device.

`MirroredStrategy` and `CollectiveAllReduceStrategy` mirror every variable on all devices, and keep the mirrors equal by
reducing the towers' values. An optimizer's slots and counters are mirrored with its variables: every device has a clone
of the optimizer, for the mirrors of its device. The first one makes each slot and counter as one mirrored variable,
under its name in TensorFlow 1, and the others share it; so it is saved once, and restored on all devices. All clones
apply the same gradients, so the mirrors stay equal.

All towers of `ParameterServerStrategy` read the one copy of each variable, and gradients are reduced on its device.
`OneDeviceStrategy` is for the test of a program before it is distributed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import forget_names, is_in_variable_store
from tpack.distribute.contexts import UpdateContext
from tpack.distribute.cross_tower_ops import CrossTowerOps, ReductionToOneDeviceCrossTowerOps, devices_for
from tpack.distribute.multi_device import MultiDeviceStrategy, different_devices, worker_devices_of
from tpack.distribute.multi_worker import MultiWorkerStrategy, WorkersCrossTowerOps
from tpack.distribute.reducer_ops import CollectiveAllReduce, choose_the_best
from tpack.distribute.strategy import VariableCreator
from tpack.distribute.values import (
    Aggregation,
    Destinations,
    MapOutput,
    Mirrored,
    PerDevice,
    Value,
    Variable,
    update_on_devices,
)
from tpack.distribute.variables.distributed import DistributedVariable, replace_in_collections
from tpack.distribute.variables.replicated import (
    MirroredVariable,
    TowerLocalVariable,
    create_distributed_variable,
    is_local_to_towers,
)
from tpack.distribute.write_guard import protect
from tpack.errors import ConfigError, TowerMismatchError
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tfutils.optimizer_clone import clone_optimizer
from tpack.tower.collections import SUMMARY_KEYS, freeze_collection
from tpack.tower.devices import LeastLoadedDeviceSetter, device_key, list_gpus, resolve_device
from tpack.tower.names import join_scope
from tpack.tower.per_graph import PerGraph
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_count, check_text

_CPU = "/device:CPU:0"


@check_arguments
class MirroredStrategy(MultiDeviceStrategy):
    """Synchronous training on the devices of one machine, with a mirror of each variable on each device.

    Towers are built one after the other, in a fixed order, also where they meet: see `tpack.tower.tower_threads`.

    Args:
        devices: names of devices, each once. None for the GPUs of the machine, or its CPU if it has none.
        num_gpus: in place of ``devices``, the number of GPUs; 0 for the CPU.
        cross_tower_ops: reduces and broadcasts values; by default `choose_the_best`, with the session config of
            `configure`.
        prefetch_on_device: the elements of a dataset that wait on each device; see `PerDeviceDataset`.
        num_gpus_per_worker: another name of ``num_gpus``.
        tower_building: see `call_in_replicated_towers`.

    Raises:
        ConfigError: More than one of ``devices``, ``num_gpus`` and ``num_gpus_per_worker`` is given, or no device, or
            one twice.
        DeviceError: The machine has GPUs, but not one of these.

    Example:
        strategy = MirroredStrategy(num_gpus=8)
        with strategy.scope():
            losses = strategy.call_for_each_tower(tower_fn, inputs)

    Source:
        The mirrored strategy of the seed ``distribute``.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        cross_tower_ops: CrossTowerOps | None = None,
        prefetch_on_device: bool | int | None = None,
        *,
        num_gpus_per_worker: int | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(cross_tower_ops, prefetch_on_device=prefetch_on_device, tower_building=tower_building)
        if num_gpus is not None and num_gpus_per_worker is not None:
            raise ConfigError(f"MirroredStrategy got {num_gpus=} and {num_gpus_per_worker=}: expected one of them")
        if num_gpus is not None:
            check_count(self, "num_gpus", num_gpus, 0)
        self._devices = _resolved(devices, num_gpus_per_worker if num_gpus is None else num_gpus)
        self._optimizers = _MirroredOptimizers()
        self._session_config: tf.ConfigProto | None = None

    @property
    def worker_devices(self) -> list[str]:
        """The devices of the towers."""
        return list(self._devices)

    def _configure(self, session_config: tf.ConfigProto | None) -> None:
        self._session_config = session_config

    def _choose_cross_tower_ops(self) -> CrossTowerOps:
        return choose_the_best(self.worker_devices, self._session_config)

    def _create_variable(self, next_creator: VariableCreator, **kwargs: Any) -> DistributedVariable:
        devices = devices_for(kwargs.pop("colocate_with", None), self._devices)
        kind = TowerLocalVariable if is_local_to_towers(kwargs) else MirroredVariable
        return create_distributed_variable(kind, next_creator, devices, kwargs)

    def _update_by_optimizer(
        self, optimizer: tf.train.Optimizer, grads_and_vars: GradsAndVars, name: str
    ) -> list[tf.Operation]:
        return self._optimizers.apply_gradients(optimizer, grads_and_vars, name)

    def __repr__(self) -> str:
        return f"<MirroredStrategy on {', '.join(self._devices)}>"


@check_arguments
class CollectiveAllReduceStrategy(MultiWorkerStrategy, MirroredStrategy):
    """Synchronous training on K devices in each of W workers, with a mirror of each variable on each device.

    In one process it reduces by collective operations; `MirroredStrategy` chooses a faster reduction between CPU
    devices. In several, values are reduced inside each worker as there, and exchanged by queues on their servers. All
    workers have the same number of devices. Their variables must start with equal values, as an `Estimator` and a
    `MultiWorkerStrategyTrainer` ensure.

    Args:
        num_gpus_per_worker: the number of towers, on as many GPUs; 0 for one on the CPU.
        devices: in place of that, the device of each tower.
        all_reduce_merge_scope: see `CollectiveAllReduce`.
        prefetch_on_device: the elements of a dataset that wait on each device; see `PerDeviceDataset`.
        tower_building: see `call_in_replicated_towers`.

    Raises:
        ConfigError: Both ``num_gpus_per_worker`` and ``devices`` are given, one is out of range, or a device is there
            twice.
        DeviceError: The machine has GPUs, but not one of these.

    Source:
        The class of the same name in TensorFlow's ``contrib.distribute``.
    """

    def __init__(
        self,
        num_gpus_per_worker: int = 0,
        *,
        devices: Sequence[str] | None = None,
        all_reduce_merge_scope: int = 32,
        prefetch_on_device: bool | int | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        names = worker_devices_of(num_gpus_per_worker, devices)
        super().__init__(
            names,
            cross_tower_ops=CollectiveAllReduce(all_reduce_merge_scope=all_reduce_merge_scope),
            prefetch_on_device=prefetch_on_device,
            tower_building=tower_building,
        )

    @property
    def num_towers(self) -> int:
        """W * K, the number of towers to average over."""
        return len(self.worker_devices) * self.num_workers

    def _join(self, member: ClusterMember, run: str) -> None:
        group = WorkerGroup.of_member(member, run)
        inner = choose_the_best(self.worker_devices, self._session_config)
        self._cross_tower_ops = WorkersCrossTowerOps(inner, group)

    def _of_worker(self, value: Any) -> Any:
        """Return a value of each worker's only tower as a `PerDevice` value, since it may differ between workers."""
        is_alone = len(self.worker_devices) == 1 and self.num_workers > 1
        is_plain = is_alone and isinstance(value, tf.Tensor | tf.IndexedSlices)
        return PerDevice({self.worker_devices[0]: value}) if is_plain else value

    def _reduce(self, aggregation: Aggregation, value: Any, destinations: Any) -> Any:
        return super()._reduce(aggregation, self._of_worker(value), destinations)

    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        return super()._batch_reduce(
            aggregation, [(self._of_worker(value), to) for value, to in value_destination_pairs]
        )

    def reduce_over_workers(self, aggregation: Aggregation, value: tf.Tensor) -> tf.Tensor:
        """Return the sum or mean of a value over workers; see `WorkersCrossTowerOps.over_workers`."""
        value = super().reduce_over_workers(aggregation, value)
        ops = self.cross_tower_ops
        return ops.over_workers(value, aggregation) if isinstance(ops, WorkersCrossTowerOps) else value

    def __repr__(self) -> str:
        workers = f" of each of {self.num_workers} workers" if self.num_workers > 1 else ""
        return f"<CollectiveAllReduceStrategy on {', '.join(self.worker_devices)}{workers}>"


class _MirroredOptimizers:
    """Optimizers by the devices of mirrored variables; kept, so that one used twice continues with its slots."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[tf.train.Optimizer, _Clones] = WeakKeyDictionary()

    def apply_gradients(
        self, optimizer: tf.train.Optimizer, grads_and_vars: GradsAndVars, name: str
    ) -> list[tf.Operation]:
        """Apply reduced gradients to the mirrors of each device, and return the update operations.

        The user's optimizer works on the first device of the first variables, clones elsewhere; one of them applies the
        gradients of plain variables.

        Raises:
            TowerMismatchError: The optimizer makes other variables on one device than on another.
        """
        groups: dict[tuple[str, ...], list[tuple[Value, Variable]]] = {}
        for grad, variable in grads_and_vars:
            devices = tuple(variable.devices) if isinstance(variable, MirroredVariable) else ()
            groups.setdefault(devices, []).append((grad, variable))
        if optimizer not in self._known:
            self._known[optimizer] = _Clones(optimizer)
        updates: list[tf.Operation] = []
        for devices, pairs in groups.items():
            found = self._known[optimizer].on(optimizer, devices)
            if devices:
                updates.extend(_apply_on_devices(found, pairs, name))
            else:
                # As an update, so that slots of plain variables are plain ones beside them.
                with UpdateContext(pairs[0][1].device):
                    updates.append(found[""].apply_gradients(pairs, name=name))
        return updates


class _Clones:
    """The clones of one optimizer, unused until then and not kept, by the devices that they work together on."""

    def __init__(self, optimizer: tf.train.Optimizer) -> None:
        # What an optimizer keeps in attributes of its own when it is used is not known, so clones are made of this one.
        self._unused = clone_optimizer(optimizer)
        self._by_devices: dict[tuple[str, ...], dict[str, tf.train.Optimizer]] = {}

    def on(self, optimizer: tf.train.Optimizer, devices: tuple[str, ...]) -> dict[str, tf.train.Optimizer]:
        """Return the optimizer of each device; that of variables that are not mirrored is under no name."""
        if devices not in self._by_devices:
            own = clone_optimizer(self._unused) if self._by_devices else optimizer
            clones = [clone_optimizer(self._unused) for _ in devices[1:]]
            self._by_devices[devices] = dict(zip(devices or ("",), [own, *clones], strict=True))
        return self._by_devices[devices]


def _apply_on_devices(
    optimizers: Mapping[str, tf.train.Optimizer], pairs: GradsAndVars, name: str
) -> list[tf.Operation]:
    around = tf.get_default_graph().get_name_scope()
    state = _OptimizerVariables(list(optimizers))
    updates: list[tf.Operation] = []

    def apply(device: str, own_pairs: GradsAndVars) -> None:
        number = len(updates)
        with ExitStack() as scopes:
            # The variables of the first one, such as its counters, keep their names.
            own_scope = join_scope(around, f"replica_{number}") if number > 0 else around
            scopes.enter_context(tf.name_scope(f"{own_scope}/" if own_scope else None))
            if number > 0:
                # Equal on every device.
                scopes.enter_context(freeze_collection(SUMMARY_KEYS))
            scopes.enter_context(state.made_on(number))
            updates.append(optimizers[device].apply_gradients(own_pairs, name=name))

    update_on_devices(apply, {device: (device,) for device in optimizers}, (list(pairs),), {})
    return updates


class _OptimizerVariables:
    """Variables of an optimizer and its clones: the first one makes each for all devices, the others share it."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = list(devices)
        self._made: list[tuple[str, MirroredVariable]] = []
        self._taken: dict[str, MirroredVariable] = {}

    @contextmanager
    def made_on(self, number: int) -> Iterator[None]:
        """Record the variables that a device's optimizer makes in this block; the first device's must be the same."""
        if number == 0:
            with tf.variable_creator_scope(self._make):
                yield
            return
        left = list(self._made)
        with tf.variable_creator_scope(partial(self._take, number, left)):
            yield
        forget_names(self._taken)
        # ``tf.get_variable`` may have returned the others.
        never_taken = [variable.op.name for _, variable in left if not is_in_variable_store(variable)]
        if never_taken:
            raise self._differ(number, f"created {', '.join(never_taken)}, and", "did not")

    def _make(self, next_creator: VariableCreator, **kwargs: Any) -> MirroredVariable:
        path = _path(kwargs)
        variable = create_distributed_variable(MirroredVariable, next_creator, self._devices, kwargs)
        self._made.append((path, variable))
        return variable

    def _take(
        self, number: int, left: list[tuple[str, MirroredVariable]], next_creator: VariableCreator, **kwargs: Any
    ) -> MirroredVariable:
        path = _path(kwargs)
        same = [made for made in left if _without_replica(made[0], number) == _without_replica(path, number)]
        # TensorFlow may number a scope differently on this device, which leaves the last part of the name.
        alike = same or [made for made in left if _last_part(made[0]) == _last_part(path)]
        if not same and len(alike) != 1:
            raise self._differ(number, f"created {', '.join(name for name, _ in left) or 'no more'}, and", f"{path!r}")
        made, variable = alike[0]
        left.remove(alike[0])
        if path != made:
            self._taken[path] = variable
        return variable

    def _differ(self, number: int, first: str, other: str) -> TowerMismatchError:
        return TowerMismatchError(
            f"the optimizer on {self._devices[0]} {first} the optimizer on {self._devices[number]} {other}: it must "
            "make the same variables on every device"
        )


def _path(kwargs: Mapping[str, Any]) -> str:
    """Return the name that a creator's arguments ask for, in the current name scope."""
    return join_scope(tf.get_default_graph().get_name_scope(), kwargs.get("name") or "Variable")


def _last_part(path: str) -> str:
    # The name of a slot ends with a slash.
    return path.rstrip("/").rpartition("/")[2]


def _without_replica(path: str, number: int) -> str:
    return "/".join(part for part in path.split("/") if part != f"replica_{number}")


def _resolved(devices: Sequence[str] | None, num_gpus: int | None) -> list[str]:
    if devices is not None and num_gpus is not None:
        raise ConfigError(f"MirroredStrategy got {devices=} and {num_gpus=}: expected one of them")
    if num_gpus is not None:
        return worker_devices_of(num_gpus, None)
    if devices is None:
        return list_gpus() or [resolve_device(-1)]
    return different_devices(devices)


@check_arguments
class ParameterServerStrategy(MultiWorkerStrategy, MultiDeviceStrategy):
    """Training with variables that the towers share: synchronous on one machine, asynchronous between workers.

    A variable is a plain one on one of the parameter devices, which get about as many bytes each. Made with an
    aggregation, it is a `MirroredVariable` with one mirror, so that towers can assign to it; local to towers, as moving
    averages of layers are, it has a component on each worker device. Towers cannot assign to others: they would do it K
    times, in any order.

    Between several workers, the variables lie on the tasks of the job ``ps``. The towers of a worker average their
    gradients on its CPU, and the worker applies them by itself, without waiting for the others.

    Use it where devices have little memory or slow links; with fast links, `MirroredStrategy` is usually faster.

    Args:
        num_gpus_per_worker: the number of towers, on as many GPUs; 0 for one on the CPU.
        devices: in place of that, the device of each tower.
        parameter_devices: the devices of variables; by default that of a single tower, else the CPU.
        cross_tower_ops: reduces and broadcasts values; by default on one device, that of each variable.
        prefetch_on_device: the elements of a dataset that wait on each device; see `PerDeviceDataset`.
        tower_building: see `call_in_replicated_towers`.

    Raises:
        ConfigError: Both ``num_gpus_per_worker`` and ``devices`` are given, one is out of range, or a list is empty.
        DeviceError: The machine has GPUs, but not one of these.

    Source:
        The class of the same name in TensorFlow's ``contrib.distribute``.
    """

    def __init__(
        self,
        num_gpus_per_worker: int = 0,
        *,
        devices: Sequence[str] | None = None,
        parameter_devices: Sequence[str] | None = None,
        cross_tower_ops: CrossTowerOps | None = None,
        prefetch_on_device: bool | int | None = None,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(cross_tower_ops, prefetch_on_device=prefetch_on_device, tower_building=tower_building)
        self._worker_devices = worker_devices_of(num_gpus_per_worker, devices)
        if parameter_devices is None:
            parameter_devices = self._worker_devices if len(self._worker_devices) == 1 else [_CPU]
        self._parameter_devices = different_devices(parameter_devices)
        # One for each graph, so that placement depends on nothing outside of it.
        self._setters = PerGraph(lambda: LeastLoadedDeviceSetter(self._parameter_devices[0], self._parameter_devices))
        self._container = ""

    @property
    def worker_devices(self) -> list[str]:
        """The devices of the towers."""
        return list(self._worker_devices)

    @property
    def parameter_devices(self) -> list[str]:
        """The devices of the variables."""
        return list(self._parameter_devices)

    def non_slot_devices(self, var_list: Sequence[Variable]) -> Variable:
        """Return the variable with the first name, so that it is the same one in every build."""
        return min(var_list, key=lambda variable: variable.name)

    @property
    def should_init(self) -> bool:
        """Whether this process initialises the shared variables: the chief does."""
        return self.should_checkpoint

    def _join(self, member: ClusterMember, run: str) -> None:
        servers = member.cluster.get("ps", ())
        if not servers:
            raise ConfigError(
                f"{type(self).__name__} got no parameter server: expected one; use launch --ps 1 ({member})"
            )
        self._parameter_devices = [f"/job:ps/task:{index}/device:CPU:0" for index in range(len(servers))]
        # Graphs share a variable by its name and container.
        self._container = run
        if self._cross_tower_ops is None:
            self._cross_tower_ops = ReductionToOneDeviceCrossTowerOps(_CPU)

    def _create_variable(self, next_creator: VariableCreator, **kwargs: Any) -> Variable:
        colocate_with = kwargs.pop("colocate_with", None)
        synchronization = kwargs.get("synchronization")
        if getattr(synchronization, "value", None) == tf.VariableSynchronization.ON_READ.value:
            devices = devices_for(colocate_with, self._worker_devices)
            return create_distributed_variable(TowerLocalVariable, next_creator, devices, kwargs)
        # The device, or the device function that chooses it.
        device = self._setters.here() if colocate_with is None else devices_for(colocate_with, [])[0]
        with tf.container(self._container), tf.device(device):
            variable = next_creator(**kwargs)
        protect(variable)
        aggregation = kwargs.get("aggregation") or tf.VariableAggregation.NONE
        if aggregation.value == tf.VariableAggregation.NONE.value:
            return variable
        shared = MirroredVariable({variable.device: variable}, tf.VariableAggregation(aggregation.value))
        replace_in_collections(shared)
        return shared

    def _update_by_optimizer(
        self, optimizer: tf.train.Optimizer, grads_and_vars: GradsAndVars, name: str
    ) -> list[tf.Operation]:
        return super()._update_by_optimizer(optimizer, [_of_one_copy(*pair) for pair in grads_and_vars], name)

    def __repr__(self) -> str:
        return (
            f"<ParameterServerStrategy on {', '.join(self._worker_devices)} with variables on "
            f"{', '.join(self._parameter_devices)}>"
        )


def _of_one_copy(grad: Value, variable: Variable) -> tuple[Value, Variable]:
    """Return a gradient and variable of one device as plain ones."""
    if isinstance(variable, MirroredVariable):
        return (grad.get(variable.primary.device) if isinstance(grad, Mirrored) else grad), variable.primary
    return grad, variable


@check_arguments
class OneDeviceStrategy(MultiDeviceStrategy):
    """One tower, with its variables, on one device. Variables are plain, and values are not wrapped.

    Args:
        device: the name of the device.
        prefetch_on_device: the elements of a dataset that wait on the device; see `PerDeviceDataset`.

    Raises:
        ConfigError: The name is malformed.
        DeviceError: The machine has GPUs, but not this one.

    Source:
        The seed ``distribute``.
    """

    def __init__(self, device: str, *, prefetch_on_device: bool | int | None = None) -> None:
        super().__init__(prefetch_on_device=prefetch_on_device)
        self._device = device_key(resolve_device(check_text(self, "device", device)))
        self._default_device = self._device

    @property
    def worker_devices(self) -> list[str]:
        """The device, alone."""
        return [self._device]

    def _create_variable(self, next_creator: VariableCreator, **kwargs: Any) -> Variable:
        (device,) = devices_for(kwargs.pop("colocate_with", None), [self._device])
        with tf.device(device):
            return next_creator(**kwargs)

    def _broadcast(self, tensor: Value, destinations: Destinations | None) -> Value:
        return tensor if destinations is None else _plain(super()._broadcast(tensor, destinations))

    def _reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None) -> Value:
        if destinations is None and not isinstance(value, MapOutput | PerDevice):
            return value
        own = value if isinstance(value, PerDevice) else PerDevice({self._device: value})
        return _plain(super()._reduce(aggregation, own, destinations))

    def __repr__(self) -> str:
        return f"<OneDeviceStrategy on {self._device}>"


def _plain(value: Value) -> Value:
    """Return the part of a value of one device."""
    parts = list(value.index.values()) if isinstance(value, Mirrored) else []
    return parts[0] if len(parts) == 1 else value
