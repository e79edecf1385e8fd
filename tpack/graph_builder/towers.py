"""What the builders of several towers have in common: calling one function in each, and checking that they agree.

The towers are built one after the other, or together from the first `TowerContext.merge_call` on, in every builder.

Gradients are reduced by position. Two towers that return different variables, or the same ones in another order, would
be summed into nonsense without any error from TensorFlow.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerMismatchError
from tpack.graph_builder.base import BuildResult, GradFn, GraphBuilder, OptimizerFn
from tpack.tower.context import TowerContext, TrainTowerContext
from tpack.tower.devices import Device, resolve_device, resolve_devices
from tpack.tower.names import tower_name
from tpack.tower.recorder import pair_variables
from tpack.tower.rendezvous import call_in_towers
from tpack.types import GradsAndVars

T = TypeVar("T")


class DataParallelBuilder(GraphBuilder):
    """Base of builders that run the model once on each of K devices.

    Args:
        towers: how many towers, or the numbers of their GPUs.

    Raises:
        ConfigError: No tower, or a GPU number that is negative or there twice.
        DeviceError: A GPU that the machine, having GPUs, does not have.
    """

    def __init__(self, towers: int | Sequence[int]) -> None:
        self._devices = resolve_devices(towers)

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
        """Call a function once in each tower and return what it returned.

        Args:
            towers: the GPU numbers of the K towers.
            func: builds one tower.
            devices: K device names or device functions, in place of the GPUs. Names of GPUs become logical CPU devices
                on a machine without GPUs.
            use_vs: K flags: whether a tower has its own variables, in a variable scope of its name. None means that all
                towers share the first one's.

        Returns:
            K outputs of ``func``.

        Shapes:
            K outputs, whatever ``func`` returns.

        Raises:
            ConfigError: The lists differ in length.
            TowerMismatchError: A tower asks for a variable that it shares and the first tower did not create.

        Source:
            The static method of the same name in tensorpack.
        """
        where = list(towers if devices is None else devices)
        own = [False] * len(towers) if use_vs is None else list(use_vs)
        if not len(towers) == len(where) == len(own):
            raise ConfigError(f"got {len(towers)} towers, {len(where)} devices and {len(own)} use_vs flags")
        resolved = [device if callable(device) else resolve_device(device) for device in where]
        return build_towers(func, resolved, own).outputs

    build_on_towers = call_for_each_tower


@dataclass(frozen=True)
class BuiltTowers(Generic[T]):
    """K towers and what the function returned in each."""

    outputs: list[T]
    contexts: tuple[TowerContext, ...]


def build_towers(func: Callable[[], T], devices: Sequence[Device], own_variables: Sequence[bool]) -> BuiltTowers[T]:
    """Call ``func`` once in each of K towers.

    Args:
        func: builds one tower.
        devices: K device names or device functions.
        own_variables: K flags: whether the tower has variables of its own. The first tower's variables are the main
            ones, without a prefix, whatever its flag says; a tower without its own takes those.

    Returns:
        The towers, in the order of the devices.

    Raises:
        ConfigError: There is no device, or the two lists differ in length.
        TowerMismatchError: A tower without its own variables asks for one that the first tower did not create, or the
            towers call `TowerContext.merge_call` a different number of times or for different things.

    Source:
        ``DataParallelBuilder.call_for_each_tower`` of tensorpack.
    """
    if not devices or len(devices) != len(own_variables):
        raise ConfigError(f"wanted as many devices as flags, and at least one, got {devices} and {own_variables}")
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
    return BuiltTowers(call_in_towers(contexts, func), tuple(contexts))


def check_shared_variables(tower_grads: Sequence[GradsAndVars]) -> None:
    """Check that all towers return gradients of the same variables in the same order.

    Args:
        tower_grads: K lists of N (gradient, variable) pairs.

    Shapes:
        K x N x 2.

    Raises:
        TowerMismatchError: They differ. The message names the variables that only some towers have.

    Source:
        The check of the same purpose in tensorpack's builders, which compares names.
    """
    _check_alike([[variable for _, variable in grads] for grads in tower_grads])


def check_own_variables(tower_grads: Sequence[GradsAndVars], towers: Sequence[TowerContext]) -> None:
    """Check that each tower returns gradients of its own copies of the same variables in the same order.

    Args:
        tower_grads: K lists of N (gradient, variable) pairs.
        towers: the K towers; their records say which variable is a copy of which.

    Shapes:
        K x N x 2.

    Raises:
        TowerMismatchError: The towers created different variables, or return gradients of different ones.

    Source:
        As `check_shared_variables`.
    """
    as_main = []
    for grads, tower in zip(tower_grads, towers, strict=True):
        pairs = pair_variables(towers[0].recorder, tower.recorder)
        main_of = {id(copy): main for main, copy in pairs}
        as_main.append([main_of.get(id(variable), variable) for _, variable in grads])
    _check_alike(as_main)


def _check_alike(tower_variables: Sequence[Sequence[tf.Variable]]) -> None:
    main = tower_variables[0]
    for index, variables in enumerate(tower_variables):
        if len(main) == len(variables) and all(a is b for a, b in zip(main, variables, strict=True)):
            continue
        only_main = _names_missing(main, variables)
        only_other = _names_missing(variables, main)
        if only_main or only_other:
            raise TowerMismatchError(
                f"towers must train the same variables: tower 0 alone has gradients of [{', '.join(only_main)}], tower "
                f"{index} alone of [{', '.join(only_other)}]"
            )
        raise TowerMismatchError(
            f"towers 0 and {index} return the gradients of the same variables in a different order or number: "
            f"{_names(main)} and {_names(variables)}"
        )


def _names_missing(variables: Sequence[tf.Variable], others: Sequence[tf.Variable]) -> list[str]:
    known = {id(variable) for variable in others}
    return [variable.op.name for variable in variables if id(variable) not in known]


def _names(variables: Sequence[tf.Variable]) -> list[str]:
    return [variable.op.name for variable in variables]
