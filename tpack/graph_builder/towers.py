"""Call one function in each of K training towers.

The towers are built one after the other, or together from the first `TowerContext.merge_call` on, in every builder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tpack.errors import ConfigError
from tpack.tower.context import TowerContext
from tpack.tower.names import tower_name
from tpack.tower.together import call_in_towers
from tpack.tower.tower_kinds import TrainTowerContext


@dataclass(frozen=True)
class BuiltTowers:
    """K towers and what the function returned in each."""

    outputs: list[Any]
    contexts: tuple[TowerContext, ...]


def build_towers(func: Callable[[], Any], devices: Sequence[Any], own_variables: Sequence[bool]) -> BuiltTowers:
    """Call ``func`` once in each of K towers.

    Args:
        func: builds one tower.
        devices: K device names or device functions.
        own_variables: K flags: whether the tower has variables of its own. The first tower's variables are the main
            ones, without a prefix, whatever its flag says; a tower without its own takes those.

    Returns:
        The towers, in the order of the devices.

    Shapes:
        K outputs, whatever ``func`` returns.

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
