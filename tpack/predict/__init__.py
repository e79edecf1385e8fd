"""Predictors: models as functions of numpy data points."""

from tpack.predict.asynchronous import MultiThreadAsyncPredictor
from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.dataset import DatasetPredictorBase, MultiProcessDatasetPredictor, SimpleDatasetPredictor
from tpack.predict.feedfree import FeedfreePredictor
from tpack.predict.offline import OfflinePredictor
from tpack.predict.online import OnlinePredictor
from tpack.predict.towers import DataParallelOfflinePredictor, MultiTowerOfflinePredictor
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "DataParallelOfflinePredictor",
    "DatasetPredictorBase",
    "FeedfreePredictor",
    "MultiProcessDatasetPredictor",
    "MultiThreadAsyncPredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "OnlinePredictor",
    "PredictConfig",
    "PredictorBase",
    "SimpleDatasetPredictor",
]
