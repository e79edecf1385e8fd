"""Prediction on several devices, each by a predictor of its own on the same weights."""

from collections.abc import Sequence
from typing import Any

from tpack.input_source.tensors import PlaceholderInput
from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.offline import check_config, create_predict_session
from tpack.predict.online import OnlinePredictor
from tpack.predict.towers import build_predict_towers
from tpack.tower.devices import resolve_devices
from tpack.utils import logger


class MultiTowerOfflinePredictor(PredictorBase):
    """Build a model on several devices, and give a predictor for each; all work in one session on one set of weights.

    The predictors can run at the same time, in threads, as `MultiThreadAsyncPredictor` does. Called itself, it predicts
    on the first device. The weights lie on the first device, so that the others fetch them from there in each call.

    Args:
        config: the model and its weights.
        towers: how many towers, or the numbers of their GPUs, which become logical CPU devices on a machine without
            GPUs.

    Attributes:
        graph: the graph.
        sess: the session.

    Raises:
        ConfigError: ``config`` is not a `PredictConfig`, or the towers cannot be understood.
        DeviceError: A GPU that the machine, having GPUs, does not have.
        TowerError: The model has no tensor of an input or output name. The message lists near names.
        CheckpointError: The weights are missing, damaged or of other shapes.
    """

    def __init__(self, config: PredictConfig, towers: int | Sequence[int]) -> None:
        devices = resolve_devices(towers)
        self.return_input = check_config(config, self).return_input
        self.graph = config.make_graph()
        with self.graph.as_default():
            source = PlaceholderInput()
            source.setup(config.input_signature)
            handles = build_predict_towers(config, devices, lambda index: source.get_input_tensors())
            tensors = [
                (each.get_tensors(config.input_names), each.get_tensors(config.output_names)) for each in handles
            ]
            self.sess = create_predict_session(config)
        self._predictors = [OnlinePredictor(*each, config.return_input, self.sess) for each in tensors]

    def get_predictor(self, n: int) -> OnlinePredictor:
        """Return the predictor of tower ``n``; beyond the last one, they are given out again from the first on."""
        if n >= len(self._predictors):
            logger.warning(f"Predictor {n} was asked for and there are {len(self._predictors)}: some work for several.")
        return self._predictors[n % len(self._predictors)]

    def get_predictors(self) -> list[OnlinePredictor]:
        """Return the predictors of all towers."""
        return list(self._predictors)

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        return self._predictors[0]._do_call(dp)
