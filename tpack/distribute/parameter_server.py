"""Strategy with one copy of each variable, which all towers read and whose gradients are reduced on its device."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.cross_tower_ops import CrossTowerOps, ReductionToOneDeviceCrossTowerOps, devices_for
from tpack.distribute.multi_device import MultiDeviceStrategy, different_devices, worker_devices_of
from tpack.distribute.multi_worker import MultiWorkerStrategy
from tpack.distribute.strategy import VariableCreator
from tpack.distribute.values import Mirrored, Value, Variable
from tpack.distribute.variables.creating import create_distributed_variable
from tpack.distribute.variables.distributed import replace_in_collections
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.distribute.variables.tower_local import TowerLocalVariable
from tpack.distribute.write_guard import protect
from tpack.errors import ConfigError
from tpack.graph_copy.towers import TowerBuilding
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.tower.devices import LeastLoadedDeviceSetter
from tpack.tower.per_graph import PerGraph
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments

_CPU = "/device:CPU:0"


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
