"""Everything that happens around the training step: saving, evaluating, logging, progress.

The names are loaded on first use, because input sources build on `tpack.callbacks.base` and must not pull in the rest.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("Callback", "CallbackFactory"),
        "checks": ("CheckNumerics",),
        "group": ("Callbacks",),
        "hooks": ("CallbackToHook", "HookToCallback"),
        "inference.base": ("Inferencer",),
        "inference.binary": ("BinaryClassificationStats",),
        "inference.error_rate": ("ClassificationError",),
        "inference.parallel": ("DataParallelInferenceRunner",),
        "inference.runner": ("InferenceRunner",),
        "inference.runner_base": ("InferenceRunnerBase",),
        "inference.scalar_stats": ("ScalarStats",),
        "min_max_saver": ("MaxSaver", "MinSaver"),
        "monitors.base": ("MonitorBase",),
        "monitors.events": ("TFEventWriter",),
        "monitors.group": ("Monitors",),
        "monitors.json_writer": ("JSONWriter",),
        "monitors.printer": ("ScalarPrinter",),
        "moving_average": ("MovingAverageSummary",),
        "progress": ("ProgressBar",),
        "proxy": ("ProxyCallback",),
        "run_op": ("RunOp", "RunUpdateOps"),
        "saver": ("ModelSaver",),
        "summary": ("MergeAllSummaries",),
        "time_left": ("EstimatedTimeLeft",),
        "trigger": ("EnableCallbackIf", "PeriodicCallback", "PeriodicTrigger"),
    },
)
