"""Evaluate the model on other data while it is trained."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("Inferencer",),
        "binary": ("BinaryClassificationStats",),
        "error_rate": ("ClassificationError",),
        "parallel": ("DataParallelInferenceRunner",),
        "runner": ("InferenceRunner",),
        "runner_base": ("InferenceRunnerBase",),
        "scalar_stats": ("ScalarStats",),
    },
)
