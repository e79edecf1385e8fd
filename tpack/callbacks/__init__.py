"""Everything that happens around the training step: saving, evaluating, logging, progress.

The names are loaded on first use, because input sources build on `tpack.callbacks.base` and must not pull in the rest.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "averages": ("MovingAverageSummary",),
        "base": (
            "Callback",
            "CallbackFactory",
        ),
        "checks": ("CheckNumerics",),
        "dump_image": (
            "DumpParamAsImage",
            "DumpTensorAsImage",
        ),
        "dump_tensors": (
            "DumpTensor",
            "DumpTensors",
        ),
        "early_stopping": ("EarlyStopping",),
        "ema": ("EMA",),
        "func_setter": ("HyperParamSetterWithFunc",),
        "gpu_memory": ("GPUMemoryTracker",),
        "gpu_utilization": ("GPUUtilizationTracker",),
        "graph_profiler": ("GraphProfiler",),
        "graph_var_param": ("GraphVarParam",),
        "group": ("Callbacks",),
        "hooks": (
            "CallbackToHook",
            "HookToCallback",
        ),
        "human_setter": ("HumanHyperParamSetter",),
        "hyper_param": (
            "HyperParam",
            "ObjAttrParam",
        ),
        "inference.binary": ("BinaryClassificationStats",),
        "inference.error_rate": ("ClassificationError",),
        "inference.inferencers": ("Inferencer",),
        "inference.parallel": ("DataParallelInferenceRunner",),
        "inference.runner": ("InferenceRunner",),
        "inference.runners": ("InferenceRunnerBase",),
        "inference.scalar_stats": ("ScalarStats",),
        "memory": ("HostMemoryTracker",),
        "min_max_saver": (
            "MaxSaver",
            "MinSaver",
        ),
        "monitors.base": ("MonitorBase",),
        "monitors.command": ("SendMonitorData",),
        "monitors.group": ("Monitors",),
        "monitors.json_writer": ("JSONWriter",),
        "monitors.printer": ("ScalarPrinter",),
        "monitors.writers": ("TFEventWriter",),
        "param_setters": ("HyperParamSetter",),
        "peak_memory": ("PeakMemoryTracker",),
        "progress": ("ProgressBar",),
        "proxy": ("ProxyCallback",),
        "run_op": (
            "RunOp",
            "RunUpdateOps",
        ),
        "run_timeout": ("SessionRunTimeout",),
        "saver": ("ModelSaver",),
        "scheduled_setter": ("ScheduledHyperParamSetter",),
        "send_stat": ("SendStat",),
        "start_proc_or_thread": ("StartProcOrThread",),
        "stat_setter": ("StatMonitorParamSetter",),
        "summary": ("MergeAllSummaries",),
        "tensor_printer": ("TensorPrinter",),
        "tensors": ("ProcessTensors",),
        "throughput": ("ThroughputTracker",),
        "time_left": ("EstimatedTimeLeft",),
        "trigger": (
            "EnableCallbackIf",
            "PeriodicCallback",
            "PeriodicTrigger",
        ),
        "watchdog": ("Watchdog",),
        "window_average": ("SimpleMovingAverage",),
    },
)
