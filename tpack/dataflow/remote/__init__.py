"""Data points from other machines, over ZeroMQ."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"flow": ("RemoteDataZMQ", "send_dataflow_zmq")})
