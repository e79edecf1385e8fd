"""Data points from other processes or machines, brought into the graph."""

from tpack.dataflow.remote.flow import RemoteDataZMQ
from tpack.dataflow.remote.options import RemoteOptions, check_address
from tpack.input_source.queue_input import QueueInput
from tpack.utils.validation import check_arguments

_DEFAULT_OPTIONS = RemoteOptions()


@check_arguments
class ZMQInput(QueueInput):
    """Dequeue data points that others send with ``tpack.dataflow.send_dataflow_zmq``.

    A thread receives them, as `tpack.dataflow.RemoteDataZMQ` does, and enqueues them. (In tensorpack an operation in
    C++ receives them, in a format of its own.)

    Args:
        end_point: an address such as ``"tcp://127.0.0.1:5555"`` or ``"ipc:///tmp/name"``.
        hwm: how many data points wait in each connection, besides those in the queue.
        bind: whether to bind the address rather than to connect to it.
        options: keys, limits and time limits.

    Creates:
        A queue of 50 data points, on ``/device:CPU:0``, and the summary ``queue_size``.

    Raises:
        ConfigError: The address cannot be read, or reaches beyond this machine and ``options`` has no keys.
    """

    def __init__(
        self, end_point: str, hwm: int = 50, bind: bool = True, options: RemoteOptions = _DEFAULT_OPTIONS
    ) -> None:
        check_address(type(self).__name__, end_point, options, "end_point")
        super().__init__(RemoteDataZMQ(end_point, hwm=hwm, bind=bind, options=options))
