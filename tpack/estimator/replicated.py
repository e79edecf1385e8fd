"""Call a model_fn once per tower, on its part of the batch, with given devices of towers and variables.

The towers share their variables; the first one's names have no prefix. They are towers of `tpack.tower`, so layers see
whether they train, and may use ``merge_call``.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerMismatchError
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.graph_copy import op_kinds
from tpack.graph_copy.towers import TowerBuilding, call_in_replicated_towers
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.tower.devices import list_gpus, resolve_together
from tpack.utils import logger
from tpack.utils.validation import check_choice, check_instances


class VariablePlacement(enum.Enum):
    """The rules for shared variables."""

    ONE_DEVICE = "one device"
    """All on one: the GPU if there is one tower, else the CPU."""

    ROUND_ROBIN = "round robin"
    """Each on the device after that of the previous variable."""


class RoundRobin:
    """Devices in turn; an empty list is refused."""

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("RoundRobin got no devices: expected at least one")
        self.devices = tuple(devices)
        self.num_given = 0

    def take(self) -> str:
        """Return the next device."""
        device = self.devices[self.num_given % len(self.devices)]
        self.num_given += 1
        return device


@dataclass(frozen=True)
class Replication:
    """K towers on their devices.

    Attributes:
        devices: one per tower.
        variable_devices: the devices of the shared variables.
        consolidation_device: the device of the split batch and of the merged results.
    """

    devices: tuple[str, ...]
    variable_devices: tuple[str, ...]
    consolidation_device: str

    @property
    def num_towers(self) -> int:
        """K."""
        return len(self.devices)

    def variable_turns(self) -> RoundRobin:
        """Return new turns of the variables' devices."""
        return RoundRobin(self.variable_devices)


def replication_over(
    devices: Sequence[str] | None, placement: VariablePlacement = VariablePlacement.ONE_DEVICE
) -> Replication:
    """Plan towers on these devices.

    Args:
        devices: names; None for all GPUs of this machine, or its CPU.
        placement: the rule for variables.

    Raises:
        DeviceError: A GPU is missing on a machine that has GPUs.
        ConfigError: A name cannot be read, or ``devices`` is empty or not a list.
    """
    check_choice("replicate_model_fn", "variable_placement", placement, tuple(VariablePlacement))
    if devices is None:
        devices = list_gpus() or ["/device:CPU:0"]
    expected = "a list of names of devices, or None for all GPUs"
    names = check_instances("replicate_model_fn", "devices", devices, str, least=1, expected=expected)
    resolved = tuple(resolve_together(names))
    is_one_gpu = len(resolved) == 1 and "GPU" in resolved[0].upper()
    consolidation = resolved[0] if is_one_gpu else "/device:CPU:0"
    variable_devices = resolved if placement is VariablePlacement.ROUND_ROBIN else (consolidation,)
    logger.info(
        f"The model_fn is replicated over {', '.join(resolved)}, with variables on {', '.join(variable_devices)}; "
        f"results meet on {consolidation}."
    )
    return Replication(resolved, variable_devices, consolidation)


class ModelFnTower(TowerContext):
    """The tower of one call of a replicated model_fn.

    Args:
        index: its index among the K towers.
        total: K.
        device: a device function.
        is_training: whether it is built for training.
        averages_losses: whether the loss of K towers is their mean instead of their sum.

    Attributes:
        num_optimizer_calls: the number of times that a `TowerOptimizer` applied gradients in this tower.
    """

    def __init__(
        self, index: int, total: int, *, device: Callable[[tf.Operation], str], is_training: bool, averages_losses: bool
    ) -> None:
        super().__init__(
            f"tower_{index}" if index else "",
            is_training,
            index=index,
            total=total,
            device=device,
            has_own_variables=False,
            reuse=index > 0,
        )
        self.averages_losses = averages_losses
        self.num_optimizer_calls = 0

    def count_optimizer_call(self) -> None:
        """Count that a `TowerOptimizer` applies gradients in this tower."""
        self.num_optimizer_calls += 1

    def scale_loss(self, loss: tf.Tensor | None) -> tf.Tensor | None:
        """Return this tower's part of the loss; the parts add up to the loss of the whole batch."""
        if loss is None or self.total == 1 or not self.averages_losses:
            return loss
        return loss / self.total


class TowerSpec(NamedTuple):
    """A tower and the spec of its model_fn."""

    context: ModelFnTower
    spec: EstimatorSpec


def build_towers(
    call: Callable[[int], EstimatorSpec],
    replication: Replication,
    mode: str,
    *,
    averages_losses: bool,
    tower_building: TowerBuilding = "auto",
) -> list[TowerSpec]:
    """Build K towers in order, outside of any current tower.

    Args:
        call: calls the model_fn for tower k.
        replication: the devices.
        mode: one of `ModeKeys`.
        averages_losses: see `ModelFnTower`.
        tower_building: how towers 2 to K-1 are built; see `call_in_replicated_towers`.

    Raises:
        ConfigError: The calls use different variables, or different numbers of merge calls, for instance because of
            different numbers of optimizers.
    """
    turns = replication.variable_turns()
    contexts = [
        ModelFnTower(
            index,
            replication.num_towers,
            device=SharedVariablesSetter(device, turns),
            is_training=mode == ModeKeys.TRAIN,
            averages_losses=averages_losses,
        )
        for index, device in enumerate(replication.devices)
    ]
    try:
        with outside_of_towers():
            specs = call_in_replicated_towers(contexts, lambda: call(_index_of_current()), tower_building)
    except TowerMismatchError as error:
        expected = "the same variables, and the same optimizers in the same order, in each call of model_fn"
        raise ConfigError(f"the towers differ: expected {expected}: {error}") from error
    return [TowerSpec(context, spec) for context, spec in zip(contexts, specs, strict=True)]


def current_model_fn_tower() -> ModelFnTower | None:
    """Return the current tower of a replicated model_fn, or None."""
    context = get_current_tower_context()
    return context if isinstance(context, ModelFnTower) else None


@contextmanager
def outside_of_towers() -> Iterator[None]:
    """Leave the Estimator's tower, if there is one, for a block that builds several."""
    context = get_current_tower_context()
    if context is None:
        yield
        return
    with context.left():
        yield


class SharedVariablesSetter:
    """A device function: variables go to the next of several devices, which advances the turn, the rest to one.

    Explicit devices of operations take precedence.

    Args:
        worker_device: the device for computation.
        variable_devices: the turns, shared by towers.

    Source:
        The device setter of the seeds of ``replicate_model_fn``.
    """

    def __init__(self, worker_device: str, variable_devices: RoundRobin) -> None:
        self.worker_device = worker_device
        self.variable_devices = variable_devices

    @property
    def ps_devices(self) -> tuple[str, ...]:
        """The devices of variables."""
        return self.variable_devices.devices

    def __call__(self, op: tf.Operation) -> str:
        """Return the device for ``op``."""
        device = self.variable_devices.take() if op.type in op_kinds.VARIABLES else self.worker_device
        merged = tf.DeviceSpec.from_string(device).make_merged_spec(tf.DeviceSpec.from_string(op.device or ""))
        return str(merged.to_string())


def _index_of_current() -> int:
    context = current_model_fn_tower()
    return 0 if context is None else context.index
