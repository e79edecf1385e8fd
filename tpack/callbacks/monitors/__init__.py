"""Receivers of statistics: event files, stats.json, the log, and the history that other callbacks read."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "base": ("MonitorBase",),
        "comet": ("CometMonitor",),
        "csv_writer": ("CSVWriter",),
        "group": ("Monitors",),
        "hparams": ("TensorBoardHParams",),
        "json_writer": ("JSONWriter",),
        "tpack.callbacks.send_stat": ("SendMonitorData",),
        "tpack.multi_worker.cross_worker": ("MergeScalars", "SlowestWorker"),
        "mlflow": ("MLflowMonitor",),
        "wandb": ("WandbMonitor",),
        "writers": ("ScalarPrinter", "TFEventWriter"),
    },
)
