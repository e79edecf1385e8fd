"""Data points from other machines, over ZeroMQ."""

from tpack.dataflow.remote.flow import RemoteDataZMQ, send_dataflow_zmq
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["RemoteDataZMQ", "send_dataflow_zmq"]
