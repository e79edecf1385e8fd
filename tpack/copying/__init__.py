"""Towers by copy: the third of several towers, and all that follow, made of the operations of the second."""

from tpack.tower.copying.towers import TowerBuilding, alike_in_towers

__all__ = ["TowerBuilding", "alike_in_towers"]
