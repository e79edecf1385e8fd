"""Data points prepared in other threads and processes.

Names are loaded on first use: each worker imports modules of this package, and none should load all.
"""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "process_map": (
            "MultiProcessMapAndBatchData",
            "MultiProcessMapAndBatchDataZMQ",
            "MultiProcessMapData",
            "MultiProcessMapDataZMQ",
        ),
        "process_runner": ("MultiProcessRunner", "MultiProcessRunnerZMQ"),
        "threads": ("MultiThreadMapData", "MultiThreadRunner"),
        "worker": ("start_workers_by",),
    },
)
