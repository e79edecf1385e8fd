"""Data points prepared in other threads and processes.

The names are loaded on first use, because each worker imports modules below and none should pay for all.
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
        "process_runner": (
            "MultiProcessRunner",
            "MultiProcessRunnerZMQ",
        ),
        "threads": (
            "MultiThreadMapData",
            "MultiThreadRunner",
        ),
        "worker": ("start_workers_by",),
    },
)
