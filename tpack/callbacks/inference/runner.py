"""Evaluate on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.callbacks.inference.runners import InferenceRunnerBase
from tpack.dataflow.base import DataFlow
from tpack.graph_builder.predict import build_predict_tower
from tpack.input_source.base import InputSource
from tpack.input_source.feed import FeedInput
from tpack.tower.handles import TowerHandle


class InferenceRunner(InferenceRunnerBase):
    """Run inferencers over all data on one device, with the current variables of the main training tower.

    Args:
        input: an `InputSource`, or a `DataFlow`, which is fed. Its size must be known.
        infs: one `Inferencer` or several.
        tower_name: name scope of the tower that is built; different for each runner of a training.
        tower_func: the model; the trainer's unless given.
        device: a GPU's number or the name of a device.

    Creates:
        One prediction tower.

    Raises:
        ConfigError: the size of the input is unknown or 0.
        CallbackError: something else than an `Inferencer` is given, or none.
    """

    def __init__(
        self,
        input: InputSource | DataFlow,
        infs: Inferencer | Sequence[Inferencer],
        tower_name: str = "InferenceTower",
        tower_func: Any = None,
        device: int | str = 0,
    ) -> None:
        super().__init__(FeedInput(input, infinite=False) if isinstance(input, DataFlow) else input, infs)
        self._tower_name = tower_name
        self._given_tower_func = tower_func
        self._device = device

    def _build_towers(self) -> list[TowerHandle]:
        return [
            build_predict_tower(
                self._tower_func, self._input.get_input_tensors, name=self._tower_name, device=self._device
            )
        ]
