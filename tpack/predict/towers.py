"""Build a model for prediction on several devices."""

from collections.abc import Callable, Sequence
from typing import Any

from tpack.predict.config import PredictConfig
from tpack.tower.handles import TowerHandle
from tpack.tower.names import tower_name
from tpack.tower.tower_kinds import PredictTowerContext


def build_predict_towers(
    config: PredictConfig, devices: Sequence[str], get_inputs: Callable[[int], Sequence[Any]]
) -> list[TowerHandle]:
    """Build the model of a config once on each device, in the current graph.

    All towers use one set of variables, which lies on the first device.

    Args:
        config: has the model.
        devices: where the towers are.
        get_inputs: ``get_inputs(k)`` returns the input tensors of tower ``k``.

    Returns:
        The handles of the towers, which are called ``tower0`` and so on.

    Raises:
        TowerMismatchError: A later tower asks for a variable that the first did not create.
    """
    tower_func = config.tower_func.without_towers()
    for index, device in enumerate(devices):
        # A tower for prediction is one by itself: nothing is summed over towers.
        with PredictTowerContext(tower_name(index), device=device, reuse=index > 0):
            tower_func(*get_inputs(index))
    return list(tower_func.towers)
