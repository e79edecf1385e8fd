"""Everything that happens around the training step: saving, evaluating, logging, progress.

The names are loaded on first use, because input sources build on `tpack.callbacks.base` and must not pull in the rest.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "summary": ("MergeAllSummaries", "MovingAverageSummary", "SimpleMovingAverage"),
        "base": ("Callback", "CallbackFactory"),
        "nan_checks": ("CheckNumerics",),
        "resource_trackers": ("GPUMemoryTracker", "GPUUtilizationTracker", "HostMemoryTracker", "PeakMemoryTracker"),
        "group": ("Callbacks", "ProxyCallback"),
        "gradient_noise": ("GradientNoiseScale",),
        "hooks": ("CallbackToHook", "HookToCallback"),
        "hyper_param": ("GraphVarParam", "HyperParam", "ObjAttrParam", "ScaleWithWorkers"),
        "inference.inferencers": ("BinaryClassificationStats", "ClassificationError", "Inferencer", "ScalarStats"),
        "inference.runners": ("DataParallelInferenceRunner", "InferenceRunner", "InferenceRunnerBase"),
        "min_max_saver": ("MaxSaver", "MinSaver"),
        "monitors.base": ("MonitorBase",),
        "monitors.experiment_tracker": ("CometMonitor", "MLflowMonitor", "WandbMonitor"),
        "monitors.table_writer": ("CSVWriter", "JSONWriter"),
        "monitors.group": ("Monitors",),
        "monitors.hparams": ("TensorBoardHParams",),
        "tpack.multi_worker.cross_worker": ("MergeScalars", "SlowestWorker"),
        "monitors.writers": ("ScalarPrinter", "TFEventWriter"),
        "param_setters": (
            "HumanHyperParamSetter",
            "HyperParamSetter",
            "HyperParamSetterWithFunc",
            "ScheduledHyperParamSetter",
            "StatMonitorParamSetter",
        ),
        "profiling.graph_profiler": ("GraphProfiler",),
        "profiling.profile": ("Profile",),
        "progress": ("EstimatedTimeLeft", "ProgressBar", "ThroughputTracker"),
        "run_op": ("RunOp", "RunUpdateOps"),
        "saver": ("ModelSaver",),
        "send_stat": ("SendMonitorData", "SendStat"),
        "start_proc_or_thread": ("StartProcOrThread",),
        "stopping": ("EarlyStopping", "MaxTime"),
        "tensors": (
            "DumpParamAsImage",
            "DumpTensor",
            "DumpTensorAsImage",
            "DumpTensors",
            "ProcessTensors",
            "TensorPrinter",
        ),
        "trigger": ("EnableCallbackIf", "PeriodicCallback", "PeriodicTrigger"),
        "watchdog": ("SessionRunTimeout", "Watchdog"),
        "weight_averages.ema": ("EMA",),
        "weight_averages.swa": ("SWA",),
    },
)
