"""Copies of towers: the third of several towers, and those after it, made of the operations of the second."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"towers": ("TowerBuilding", "replicate_by_copy", "call_in_replicated_towers")}
)
