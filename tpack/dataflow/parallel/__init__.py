"""Data points prepared in other threads and processes."""

from tpack.dataflow.parallel.process_map import MultiProcessMapData, MultiProcessMapDataZMQ
from tpack.dataflow.parallel.process_map_batch import MultiProcessMapAndBatchData, MultiProcessMapAndBatchDataZMQ
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.start_method import start_workers_by
from tpack.dataflow.parallel.thread_map import MultiThreadMapData
from tpack.dataflow.parallel.thread_runner import MultiThreadRunner

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
