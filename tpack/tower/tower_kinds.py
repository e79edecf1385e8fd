"""The two kinds of towers, for code that knows which one it wants."""

from typing import Any

from tpack.tower.context import TowerContext


class TrainTowerContext(TowerContext):
    """A tower built for training.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the tower; not empty means variables of its own.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, True, vs_name, **options)


class PredictTowerContext(TowerContext):
    """A tower built for prediction: it takes the variables of one training tower.

    Args:
        tower_name: the name scope of the tower.
        vs_name: the variable scope of the training tower whose variables are used.
        **options: as for `TowerContext`.
    """

    def __init__(self, tower_name: str, vs_name: str = "", **options: Any) -> None:
        super().__init__(tower_name, False, vs_name, **options)
