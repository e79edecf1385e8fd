"""Data points prepared in other threads and processes."""

from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.process_map_batch import MultiProcessMapAndBatchData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.start_method import start_workers_by
from tpack.dataflow.parallel.thread_map import MultiThreadMapData
from tpack.dataflow.parallel.thread_runner import MultiThreadRunner

# Names that scripts use for the same things; there is one transport now.
MultiProcessMapDataZMQ = MultiProcessMapData
MultiProcessMapAndBatchDataZMQ = MultiProcessMapAndBatchData

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
