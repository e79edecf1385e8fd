"""The builder of one tower, and the base of those of several: a call of one function in each, which must agree.

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
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.graph_copy.towers import TowerBuilding, call_in_replicated_towers, check_tower_building
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import TowerContext, TrainTowerContext
from tpack.tower.devices import Device, resolve_device, resolve_devices
from tpack.tower.names import tower_name
from tpack.tower.ownership import pair_variables
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments

T = TypeVar("T")


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
