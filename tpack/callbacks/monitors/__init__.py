"""Receivers of statistics: event files, stats.json, the log, and the history that other callbacks read."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("MonitorBase",),
        "experiment_tracker": ("CometMonitor", "MLflowMonitor", "WandbMonitor"),
        "table_writer": ("CSVWriter", "JSONWriter"),
        "group": ("Monitors",),
        "hparams": ("TensorBoardHParams",),
        "tpack.callbacks.send_stat": ("SendMonitorData",),
        "tpack.multi_worker.cross_worker": ("MergeScalars", "SlowestWorker"),
        "writers": ("ScalarPrinter", "TFEventWriter"),
    },
)
