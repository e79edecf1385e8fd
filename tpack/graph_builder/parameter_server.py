"""K towers that share variables, updated by the mean of their gradients or by each tower's own."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn
from tpack.graph_builder.towers import BuiltTowers, DataParallelBuilder, align_shared_gradients, build_towers
from tpack.graph_copy.towers import TowerBuilding
from tpack.reduction.modes import aggregate_grads_colocate
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.devices import LeastLoadedDeviceSetter
from tpack.tower.grads import Gradient, map_gradient_values
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, shown

PS_DEVICES = ("cpu", "gpu")


class SharedVariablesBuilder(DataParallelBuilder):
    """Base of builders whose towers share variables on one or several devices.

    Args:
        towers: the number of towers, or the numbers of their GPUs.
        ps_device: ``"cpu"`` puts all variables on the CPU, ``"gpu"`` balances their bytes over the towers' devices.
        tower_building: see `DataParallelBuilder`.

    Raises:
        ConfigError: ``ps_device`` or ``towers`` is invalid.
        DeviceError: The machine has GPUs, but not one of these.
    """

    def __init__(
        self, towers: int | Sequence[int], ps_device: str = "gpu", *, tower_building: TowerBuilding = "auto"
    ) -> None:
        if ps_device not in PS_DEVICES:
            raise ConfigError(
                f"{type(self).__name__} got ps_device={shown(ps_device)}: expected {' or '.join(PS_DEVICES)}"
            )
        super().__init__(towers, tower_building=tower_building)
        self._ps_device = ps_device

    def _build_towers(self, grad_fn: GradFn) -> BuiltTowers[GradsAndVars]:
        ps_devices = ["/device:CPU:0"] if self._ps_device == "cpu" else list(self.devices)
        setters = [LeastLoadedDeviceSetter(device, ps_devices) for device in self.devices]
        towers = build_towers(grad_fn, setters, [False] * len(setters), tower_building=self._tower_building)
        return BuiltTowers(align_shared_gradients(towers.outputs), towers.contexts)


class SyncMultiGPUParameterServerBuilder(SharedVariablesBuilder):
    """Builder that averages the towers' gradients on the device of each variable, and applies them once.

    For devices with little memory or slow links: there is one copy of each variable and its optimizer state. On GPUs
    with fast links the replicated builder is usually faster.
    """

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and one train op.

        Shapes:
            K x N gradients are averaged to N.

        Creates:
            Variables on the CPU or balanced over the towers' devices; optimizer slots beside their variables.

        Raises:
            TowerMismatchError: The towers returned gradients of different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
            ReductionError: A variable has no gradient in some tower.

        Source:
            tensorpack's builder of the same name.
        """
        towers = self._build_towers(grad_fn)
        optimizer = check_optimizer(optimizer_fn())
        with tf.name_scope("average_gradients"):
            grads = aggregate_grads_colocate([list(grads) for grads in towers.outputs])
        return BuildResult(optimizer.apply_gradients(grads, name="train_op"), towers.contexts)


@check_arguments
class AsyncMultiGPUBuilder(SharedVariablesBuilder):
    """Builder whose towers apply their gradients independently.

    A step makes K updates. A tower may read a variable before or after another tower's update, so two runs differ; use
    a synchronous builder where that matters. Updates run one after the other: concurrent ones would lose updates of
    Adam's beta powers, and mix the averages of different towers.

    Args:
        towers: see `SharedVariablesBuilder`.
        scale_gradient: multiply gradients by 1/K, so that the K updates of a step together are as large as one.
        ps_device: see `SharedVariablesBuilder`.
        tower_building: see `DataParallelBuilder`.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        scale_gradient: bool = True,
        *,
        ps_device: str = "cpu",
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, ps_device, tower_building=tower_building)
        self._scale_gradient = scale_gradient

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and a train op that runs all K updates.

        Shapes:
            K x N gradients, each of its variable's shape.

        Raises:
            TowerMismatchError: The towers returned gradients of different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.

        Source:
            tensorpack's builder, which applies variable by variable and so advances Adam's beta powers N times as fast.
        """
        towers = self._build_towers(grad_fn)
        optimizer = check_optimizer(optimizer_fn())
        scale = 1.0 / len(self.devices) if self._scale_gradient else 1.0
        updates: list[tf.Operation] = []
        for context, device, grads in zip(towers.contexts, self.devices, towers.outputs, strict=True):
            with tf.device(device):
                scaled = [(_scale(grad, scale), variable) for grad, variable in grads]
            # In its tower, so that only the main one writes summaries; outside the device scope, so that slots and
            # updates are placed with their variables.
            with context.revisited(), tf.control_dependencies(updates[-1:]):
                updates.append(optimizer.apply_gradients(scaled, name=f"apply_gradients_{context.index}"))
        return BuildResult(tf.group(*updates, name="train_op"), towers.contexts)


def _scale(grad: Gradient, scale: float) -> Gradient:
    return grad if scale == 1.0 else map_gradient_values(lambda values: values * scale, grad)
