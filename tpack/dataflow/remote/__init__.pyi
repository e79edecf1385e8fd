"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.dataflow.remote.flow import RemoteDataZMQ as RemoteDataZMQ
from tpack.dataflow.remote.flow import send_dataflow_zmq as send_dataflow_zmq
