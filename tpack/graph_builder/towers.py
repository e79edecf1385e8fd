"""Builders of one tower and of towers that share variables, and the base of all: a call of one function in each.

Towers are built one after the other, or together from the first `TowerContext.merge_call` on. Gradients are reduced by
position, so they are ordered first: TensorFlow would silently add gradients of different variables of towers that
create them in different orders.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerMismatchError
from tpack.graph_builder.accumulation import apply_every, check_steps
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn, StepGradients
from tpack.graph_copy.towers import TowerBuilding, call_in_replicated_towers, check_tower_building
from tpack.reduction.gradients import merge_grad_list, split_grad_list
from tpack.reduction.modes import aggregate_grads_colocate
from tpack.schedules import Schedule
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import TowerContext, TrainTowerContext
from tpack.tower.devices import Device, LeastLoadedDeviceSetter, resolve_device, resolve_devices
from tpack.tower.grads import Gradient, ReduceOp, map_gradient_values
from tpack.tower.names import tower_name
from tpack.tower.ownership import pair_variables
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, shown

T = TypeVar("T")


PS_DEVICES = ("cpu", "gpu")


@check_arguments
class DataParallelBuilder(GraphBuilder):
    """Base of builders that run the model once on each of K devices.

    Args:
        towers: the number of towers, or the numbers of their GPUs.
        tower_building: copy towers 2 to K-1 from tower 1, or call the function; see `call_in_replicated_towers`.

    Raises:
        ConfigError: There is no tower, a GPU number is negative or there twice, or ``tower_building`` is unknown.
        DeviceError: The machine has GPUs, but not one of these.
    """

    def __init__(self, towers: int | Sequence[int], *, tower_building: TowerBuilding = "auto") -> None:
        self._devices = resolve_devices(towers)
        self._tower_building = check_tower_building(self, tower_building)

    @property
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each tower."""
        return self._devices

    @abstractmethod
    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """See `GraphBuilder.build`."""

    @staticmethod
    def call_for_each_tower(
        towers: Sequence[int],
        func: Callable[[], T],
        devices: Sequence[Device] | None = None,
        use_vs: Sequence[bool] | None = None,
    ) -> list[T]:
        """Call a function once in each tower and return its K results.

        Args:
            towers: the GPU numbers of the K towers.
            func: builds one tower.
            devices: K device names or device functions, in place of the GPUs. GPUs become logical CPU devices on a
                machine without GPUs.
            use_vs: K flags: whether a tower has its own variables, in a variable scope of its name. None: all share the
                first's.

        Raises:
            ConfigError: The lists differ in length.
            TowerMismatchError: A tower uses a shared variable that the first tower did not create.

        Source:
            tensorpack's static method.
        """
        where = list(towers if devices is None else devices)
        own = [False] * len(towers) if use_vs is None else list(use_vs)
        if not len(towers) == len(where) == len(own):
            raise ConfigError(
                f"call_for_each_tower got {len(towers)} towers, {len(where)} devices and {len(own)} use_vs flags: "
                "expected as many of each"
            )
        resolved = [device if callable(device) else resolve_device(device) for device in where]
        return build_towers(func, resolved, own).outputs

    build_on_towers = call_for_each_tower


@dataclass(frozen=True)
class BuiltTowers(Generic[T]):
    """K towers with the results of the function in them."""

    outputs: list[T]
    contexts: tuple[TowerContext, ...]


@check_arguments
def build_towers(
    func: Callable[[], T],
    devices: Sequence[Device],
    own_variables: Sequence[bool],
    *,
    tower_building: TowerBuilding = "auto",
    copies_are_set: bool = False,
) -> BuiltTowers[T]:
    """Call ``func`` once in each of K towers; return the towers in the order of the devices.

    Args:
        func: builds one tower.
        devices: K device names or device functions.
        own_variables: K flags: whether the tower has variables of its own. The first tower's variables are the main
            ones, without a prefix, whatever its flag; towers without their own share them.
        tower_building: see `call_in_replicated_towers`.
        copies_are_set: whether all variables get the main tower's values before they are used; see there.

    Raises:
        ConfigError: There is no device, or the two lists differ in length.
        TowerMismatchError: A tower uses a shared variable that the first tower did not create, or the towers call
            `TowerContext.merge_call` a different number of times or for different things.

    Source:
        tensorpack's ``DataParallelBuilder``.
    """
    if not devices or len(devices) != len(own_variables):
        raise ConfigError(
            f"build_towers got devices={devices} and own_variables={own_variables}: expected as many devices as flags, "
            "and at least one"
        )
    contexts = [
        TrainTowerContext(
            tower_name(index),
            tower_name(index) if has_own and index > 0 else "",
            index=index,
            total=len(devices),
            device=device,
            has_own_variables=has_own,
            reuse=index > 0 and not has_own,
        )
        for index, (device, has_own) in enumerate(zip(devices, own_variables, strict=True))
    ]
    outputs = call_in_replicated_towers(contexts, func, tower_building, copies_are_set=copies_are_set)
    return BuiltTowers(outputs, tuple(contexts))


def align_shared_gradients(tower_grads: Sequence[GradsAndVars]) -> list[GradsAndVars]:
    """Order K lists of N (gradient, variable) pairs of shared variables as the first tower's are.

    Shapes:
        K x N x 2; returned: K x N x 2.

    Raises:
        TowerMismatchError: The towers return gradients of different variables.

    Source:
        The check by names in tensorpack's builders.
    """
    return _aligned(tower_grads, [{} for _ in tower_grads])


def align_own_gradients(tower_grads: Sequence[GradsAndVars], towers: Sequence[TowerContext]) -> list[GradsAndVars]:
    """Order K lists of N (gradient, variable) pairs of towers' own variables: the n-th are copies of one variable.

    Shapes:
        K x N x 2; returned: K x N x 2.

    Raises:
        TowerMismatchError: The towers created different variables, or return gradients of different ones.
    """
    main = towers[0].recorder
    copies = [{id(copy): own for own, copy in pair_variables(main, tower.recorder)} for tower in towers]
    return _aligned(tower_grads, copies)


def _aligned(tower_grads: Sequence[GradsAndVars], mains: Sequence[Mapping[int, tf.Variable]]) -> list[GradsAndVars]:
    """Order pairs as the first tower's are, by main variables, which `mains` has by the ids of copies."""
    towers = []
    for index, (grads, main_of) in enumerate(zip(tower_grads, mains, strict=True)):
        pairs = {id(main_of.get(id(variable), variable)): (grad, variable) for grad, variable in grads}
        if len(pairs) < len(grads):
            raise TowerMismatchError(
                f"tower {index} returns more than one gradient of a variable: of [{', '.join(_names(grads))}]"
            )
        towers.append(pairs)
    for index, pairs in enumerate(towers):
        if pairs.keys() != towers[0].keys():
            raise TowerMismatchError(
                f"towers must train the same variables: tower 0 alone has gradients of "
                f"[{', '.join(_only_in(towers[0], pairs))}], tower {index} alone of "
                f"[{', '.join(_only_in(pairs, towers[0]))}]"
            )
    return [[pairs[key] for key in towers[0]] for pairs in towers]


def _only_in(pairs: Mapping[int, tuple[Any, Any]], others: Mapping[int, tuple[Any, Any]]) -> list[str]:
    return _names([pair for key, pair in pairs.items() if key not in others])


def _names(grads: GradsAndVars) -> list[str]:
    return [variable.op.name for _, variable in grads]


@check_arguments
class SimpleBuilder(GraphBuilder):
    """Builder of one tower.

    Args:
        device: the device; empty leaves placement to TensorFlow and the user.

    Raises:
        ConfigError: The name of the device is malformed.
        DeviceError: The machine has GPUs, but not this one.
    """

    def __init__(self, device: str = "") -> None:
        self._device = resolve_device(device)

    @property
    def devices(self) -> tuple[str, ...]:
        """The device, or an empty name."""
        return (self._device,)

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the tower and apply its gradients.

        Shapes:
            N gradients, each of its variable's shape.

        Raises:
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.
        """
        context = TrainTowerContext("", device=self._device or None)
        with context:
            grads = grad_fn()
        optimizer = check_optimizer(optimizer_fn())
        return BuildResult(optimizer.apply_gradients(list(grads), name="train_op"), (context,))


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


@check_arguments
class SyncMultiGPUParameterServerBuilder(SharedVariablesBuilder):
    """Builder that averages the towers' gradients on the device of each variable, and applies them once.

    For devices with little memory or slow links: there is one copy of each variable and its optimizer state. On GPUs
    with fast links the replicated builder is usually faster.

    Args:
        towers: see `SharedVariablesBuilder`.
        ps_device: see `SharedVariablesBuilder`.
        accumulate: the number of steps whose gradients are summed in each tower, then averaged and applied once; a
            `Schedule` gives that of each epoch.
        tower_building: see `SharedVariablesBuilder`.
    """

    def __init__(
        self,
        towers: int | Sequence[int],
        ps_device: str = "gpu",
        *,
        accumulate: int | Schedule = 1,
        tower_building: TowerBuilding = "auto",
    ) -> None:
        super().__init__(towers, ps_device, tower_building=tower_building)
        self._accumulate = check_steps(self, "accumulate", accumulate)

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
        rows, variables = split_grad_list(towers.outputs)
        averaged: GradsAndVars = []

        def apply(grads: list[list[Gradient]]) -> tf.Operation:
            nonlocal averaged
            with tf.name_scope("average_gradients"):
                averaged = aggregate_grads_colocate(merge_grad_list(grads, variables))
            return optimizer.apply_gradients(averaged, name="train_op")

        applied = apply_every(self._accumulate, towers.outputs, apply)
        gradients = None
        if self._accumulate == 1:
            gradients = StepGradients(rows, [grad for grad, _ in averaged], ReduceOp.MEAN, len(rows))
        return BuildResult(applied.train_op, towers.contexts, sync_op=applied.sync_ops or None, gradients=gradients)


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
