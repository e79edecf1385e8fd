"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.copying.towers import TowerBuilding as TowerBuilding
from tpack.copying.towers import alike_in_towers as alike_in_towers
from tpack.copying.towers import call_in_alike_towers as call_in_alike_towers
