"""The public names of the tower mechanism, under scripts' module name; the code is in ``tpack.tower``."""

from tpack.tower.context import PredictTowerContext, TowerContext, TrainTowerContext, get_current_tower_context
from tpack.tower.tower_func import TowerFunc, TowerHandle, TowerHandles

BaseTowerContext = TowerContext
TowerFuncWrapper = TowerFunc
TowerTensorHandle = TowerHandle
TowerTensorHandles = TowerHandles

__all__ = [
    "BaseTowerContext",
    "PredictTowerContext",
    "TowerContext",
    "TowerFunc",
    "TowerFuncWrapper",
    "TowerTensorHandle",
    "TowerTensorHandles",
    "TrainTowerContext",
    "get_current_tower_context",
]
