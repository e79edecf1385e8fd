"""Data points prepared in other threads and processes."""

from tpack.dataflow.parallel.process_map import (
    MultiProcessMapAndBatchData,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapData,
    MultiProcessMapDataZMQ,
)
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.parallel.workers.launch import start_workers_by
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = [
    "MultiProcessMapAndBatchData",
    "MultiProcessMapAndBatchDataZMQ",
    "MultiProcessMapData",
    "MultiProcessMapDataZMQ",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "start_workers_by",
]
