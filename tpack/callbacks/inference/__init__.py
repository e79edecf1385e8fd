"""Evaluate the model on other data while it is trained."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "inferencers": ("BinaryClassificationStats", "ClassificationError", "Inferencer", "ScalarStats"),
        "runners": ("DataParallelInferenceRunner", "InferenceRunner", "InferenceRunnerBase"),
    },
)
