"""Predictors: models as functions of numpy data points."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "asynchronous": ("MultiThreadAsyncPredictor",),
        "base": ("PredictorBase",),
        "config": ("PredictConfig",),
        "dataset": ("DatasetPredictorBase", "MultiProcessDatasetPredictor", "SimpleDatasetPredictor"),
        "feedfree": ("FeedfreePredictor",),
        "offline": ("OfflinePredictor",),
        "online": ("OnlinePredictor",),
        "towers": ("DataParallelOfflinePredictor", "MultiTowerOfflinePredictor"),
    },
)
