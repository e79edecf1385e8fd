"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.dataflow.parallel.process_map import MultiProcessMapAndBatchData as MultiProcessMapAndBatchData
from tpack.dataflow.parallel.process_map import MultiProcessMapAndBatchDataZMQ as MultiProcessMapAndBatchDataZMQ
from tpack.dataflow.parallel.process_map import MultiProcessMapData as MultiProcessMapData
from tpack.dataflow.parallel.process_map import MultiProcessMapDataZMQ as MultiProcessMapDataZMQ
from tpack.dataflow.parallel.process_runner import MultiProcessRunner as MultiProcessRunner
from tpack.dataflow.parallel.process_runner import MultiProcessRunnerZMQ as MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData as MultiThreadMapData
from tpack.dataflow.parallel.threads import MultiThreadRunner as MultiThreadRunner
from tpack.dataflow.parallel.worker import start_workers_by as start_workers_by
