"""Predictors: models as functions of numpy data points."""

from tpack.predict.base import PredictorBase
from tpack.predict.config import PredictConfig
from tpack.predict.offline import OfflinePredictor
from tpack.predict.online import OnlinePredictor

__all__ = ["OfflinePredictor", "OnlinePredictor", "PredictConfig", "PredictorBase"]
