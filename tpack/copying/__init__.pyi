"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.graph_copy.towers import TowerBuilding as TowerBuilding
from tpack.graph_copy.towers import call_in_replicated_towers as call_in_replicated_towers
from tpack.graph_copy.towers import replicate_by_copy as replicate_by_copy
