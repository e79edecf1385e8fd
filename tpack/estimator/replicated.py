"""Call a model_fn once for each tower, on its part of the batch.

The towers share their variables, and the first one's names have no prefix. They are towers of `tpack.tower`, so layers
find out whether they train, and may meet by ``merge_call``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tpack.errors import ConfigError, TowerMismatchError
from tpack.estimator.mode_keys import ModeKeys
from tpack.estimator.replication import Replication
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.variable_placement import SharedVariablesSetter
from tpack.tower.context import TowerContext, get_current_tower_context
from tpack.tower.together import call_in_towers


class ModelFnTower(TowerContext):
    """The tower that one call of a replicated model_fn builds.

    Args:
        index: which of the K towers.
        total: K.
        device: a device function.
        is_training: whether it is built for training.
        averages_losses: whether the loss of K towers is their mean; else it is their sum.

    Attributes:
        num_optimizer_calls: how often a `TowerOptimizer` applied gradients in this tower.
    """

    def __init__(self, index: int, total: int, *, device: Any, is_training: bool, averages_losses: bool) -> None:
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

    def scale_loss(self, loss: Any) -> Any:
        """Return this tower's part of the loss, so that the sum of the parts is the loss of the whole batch."""
        if loss is None or self.total == 1 or not self.averages_losses:
            return loss
        return loss / self.total


class BuiltTower(NamedTuple):
    """What a tower is known by after it was built."""

    context: ModelFnTower
    spec: EstimatorSpec


def build_towers(
    call: Callable[[int], EstimatorSpec], replication: Replication, mode: str, *, averages_losses: bool
) -> list[BuiltTower]:
    """Build K towers, also where the caller is in a tower of its own.

    Args:
        call: calls the model_fn for tower k.
        replication: the devices.
        mode: one of `ModeKeys`.
        averages_losses: see `ModelFnTower`.

    Returns:
        The towers in order, with what the calls returned.

    Raises:
        ConfigError: The calls use different variables, or meet a different number of times, as they do when they call
            a different number of optimizers.
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
            specs = call_in_towers(contexts, lambda: call(_index_of_current()))
    except TowerMismatchError as error:
        raise ConfigError(
            "each call of a replicated model_fn must use the same variables, and the same optimizers in the same "
            f"order: {error}"
        ) from error
    return [BuiltTower(context, spec) for context, spec in zip(contexts, specs, strict=True)]


@contextmanager
def outside_of_towers() -> Iterator[None]:
    """Leave the tower that an Estimator calls a model_fn in, if there is one, for a block that builds several."""
    context = get_current_tower_context()
    if context is None:
        yield
        return
    with context.left():
        yield


def current_model_fn_tower() -> ModelFnTower | None:
    """Return the tower of a replicated model_fn that is being built here, or None."""
    context = get_current_tower_context()
    return context if isinstance(context, ModelFnTower) else None


def _index_of_current() -> int:
    context = current_model_fn_tower()
    return 0 if context is None else context.index
