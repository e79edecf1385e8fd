"""Trainers of towers, under the module name that scripts import them from.

Their code is in modules named after what they do.
"""

from tpack.train.single_cost import SingleCostTrainer
from tpack.train.tower_trainer import TowerTrainer

__all__ = ["SingleCostTrainer", "TowerTrainer"]
