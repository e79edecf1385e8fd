"""Predictors: models as functions of numpy data points."""

from tpack.predict.base import PredictorBase
from tpack.predict.online import OnlinePredictor

__all__ = ["OnlinePredictor", "PredictorBase"]
