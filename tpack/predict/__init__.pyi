"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.predict.asynchronous import MultiThreadAsyncPredictor as MultiThreadAsyncPredictor
from tpack.predict.base import PredictorBase as PredictorBase
from tpack.predict.config import PredictConfig as PredictConfig
from tpack.predict.dataset import DatasetPredictorBase as DatasetPredictorBase
from tpack.predict.dataset import MultiProcessDatasetPredictor as MultiProcessDatasetPredictor
from tpack.predict.dataset import SimpleDatasetPredictor as SimpleDatasetPredictor
from tpack.predict.feedfree import FeedfreePredictor as FeedfreePredictor
from tpack.predict.offline import OfflinePredictor as OfflinePredictor
from tpack.predict.online import OnlinePredictor as OnlinePredictor
from tpack.predict.towers import DataParallelOfflinePredictor as DataParallelOfflinePredictor
from tpack.predict.towers import MultiTowerOfflinePredictor as MultiTowerOfflinePredictor
