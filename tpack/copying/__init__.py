"""Towers by copy: the third of several towers, and all that follow, made of the operations of the second."""

from tpack.copying.towers import TowerBuilding, alike_in_towers, call_in_alike_towers
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["TowerBuilding", "alike_in_towers", "call_in_alike_towers"]
