"""Evaluate on several devices at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpack.callbacks.inference.inferencers import Inferencer
from tpack.callbacks.inference.runners import InferenceRunnerBase
from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.graph_builder.predict import build_predict_tower
from tpack.input_source.base import InputSource
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.tower.devices import resolve_devices
from tpack.tower.handles import TowerHandle


class DataParallelInferenceRunner(InferenceRunnerBase):
    """Run inferencers over all data on several devices, each of which takes every K-th batch.

    The statistics are those of one device: every batch is evaluated exactly once, also where their number is not a
    multiple of the number of devices, and the batches reach the inferencers in the order of the data.

    Args:
        input: an `InputSource` that gives each tower its own batch, or a `DataFlow`, which goes through a queue. Its
            size must be known.
        infs: one `Inferencer` or several.
        gpus: number of devices, or the numbers of GPUs.
        tower_name: name scope of the towers, to which their number is added; different for each runner of a training.
        tower_func: the model; the trainer's unless given.

    Creates:
        K prediction towers.

    Raises:
        ConfigError: the size of the input is unknown or 0, ``gpus`` makes no sense, or several devices are to share a
            `FeedInput`.
        DeviceError: there is no such GPU.
        CallbackError: something else than an `Inferencer` is given, or none.
    """

    def __init__(
        self,
        input: InputSource | DataFlow,
        infs: Inferencer | Sequence[Inferencer],
        gpus: int | Sequence[int],
        tower_name: str = "InferenceTower",
        tower_func: Any = None,
    ) -> None:
        self._devices = resolve_devices(gpus)
        if isinstance(input, FeedInput) and len(self._devices) > 1:
            raise ConfigError(
                "FeedInput feeds all towers in each run, also in a last round of fewer: give its DataFlow itself"
            )
        super().__init__(QueueInput(input) if isinstance(input, DataFlow) else input, infs)
        self._tower_name = tower_name
        self._given_tower_func = tower_func

    def _build_towers(self) -> list[TowerHandle]:
        return [
            build_predict_tower(
                self._tower_func, self._input.get_input_tensors, name=f"{self._tower_name}{index}", device=device
            )
            for index, device in enumerate(self._devices)
        ]
