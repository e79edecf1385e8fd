"""Evaluate the model on other data while it is trained."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "binary": ("BinaryClassificationStats",),
        "error_rate": ("ClassificationError",),
        "inferencers": ("Inferencer",),
        "parallel": ("DataParallelInferenceRunner",),
        "runner": ("InferenceRunner",),
        "runners": ("InferenceRunnerBase",),
        "scalar_stats": ("ScalarStats",),
    },
)
