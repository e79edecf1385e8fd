"""Predictors: models as functions of numpy data points."""

from tpack.predict.asynchronous import MultiThreadAsyncPredictor
from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.data_parallel import DataParallelOfflinePredictor
from tpack.predict.dataset import DatasetPredictorBase, SimpleDatasetPredictor
from tpack.predict.feedfree import FeedfreePredictor
from tpack.predict.multi_process import MultiProcessDatasetPredictor
from tpack.predict.multi_tower import MultiTowerOfflinePredictor
from tpack.predict.offline import OfflinePredictor
from tpack.predict.online import OnlinePredictor

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
