"""Data points from other processes or machines."""

from tpack.dataflow.remote.flow import RemoteDataZMQ
from tpack.dataflow.remote.options import RemoteOptions, check_address
from tpack.input_source.queue_input import QueueInput
from tpack.utils.validation import check_arguments

_DEFAULT_OPTIONS = RemoteOptions()


@check_arguments
class ZMQInput(QueueInput):
    """Source of data points that ``tpack.dataflow.send_dataflow_zmq`` sends.

    A thread receives them, as `tpack.dataflow.RemoteDataZMQ` does, and enqueues them. (In tensorpack an operation in
    C++ receives them, in its own format.)

    Args:
        end_point: an address such as ``"tcp://127.0.0.1:5555"`` or ``"ipc:///tmp/name"``.
        hwm: the number of data points that wait in each connection, besides those in the queue.
        bind: bind the address rather than connect to it.
        options: keys, limits and timeouts.

    Creates:
        A queue of 50 data points, on ``/device:CPU:0``, and the summary ``queue_size``.

    Raises:
        ConfigError: The address is malformed, or reaches beyond this machine and ``options`` has no keys.
    """

    def __init__(
        self, end_point: str, hwm: int = 50, bind: bool = True, options: RemoteOptions = _DEFAULT_OPTIONS
    ) -> None:
        check_address(type(self).__name__, end_point, options, "end_point")
        super().__init__(RemoteDataZMQ(end_point, hwm=hwm, bind=bind, options=options))
