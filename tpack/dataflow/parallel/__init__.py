"""Data points prepared in other threads and processes."""

from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ

__all__ = ["MultiProcessRunner", "MultiProcessRunnerZMQ"]
