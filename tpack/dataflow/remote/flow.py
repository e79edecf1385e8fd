"""Data points from other processes or machines, over ZeroMQ: one end sends a flow, the other is a flow.

Either may bind, and several may send to one. Data points are in the format of ``tpack.utils.serialize``, never pickles.
Nothing leaves this machine without keys.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tpack.dataflow.base import DataFlow, DataFlowTerminated
from tpack.dataflow.remote.options import RemoteOptions, check_address
from tpack.dataflow.remote.sockets import Endpoint, drain_events, open_sockets, rejections
from tpack.dataflow.repeat import RepeatedData
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import logger, serialize
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments, check_count

# The longest time until a waiting flow notices an interruption.
_POLL_SECS = 0.2
# The seconds without a data point until a warning, repeated each time they have doubled.
_WARN_SECS = 60.0
# After this many refused messages only one in a thousand is logged.
_LOGGED_REFUSALS = 10
_DEFAULT_OPTIONS = RemoteOptions()


@dataclass
class RemoteStats:
    """Counts since the flow was made.

    Attributes:
        num_points: data points.
        num_malformed: messages that were not data points.
        num_oversized: messages larger than allowed. One of more than twice that size ends its connection instead.
        num_connects: peers that connected.
        num_disconnects: peers that left, were silent for too long, or sent far too large messages.
        num_rejected: peers with missing or wrong keys.
    """

    num_points: int = 0
    num_malformed: int = 0
    num_oversized: int = 0
    num_connects: int = 0
    num_disconnects: int = 0
    num_rejected: int = 0


@check_arguments
class RemoteDataZMQ(DataFlow):
    """Yield the data points that others send with `send_dataflow_zmq`, without end.

    Sockets are open during iteration. Data points that were sent and not taken are lost, so there is no position.
    ``stats`` counts received and refused messages.

    Args:
        addr1: an address such as ``"tcp://127.0.0.1:5555"`` or ``"ipc:///tmp/name"``.
        addr2: another one, to get data points from both.
        hwm: the number of waiting data points in each connection, if ``options.max_waiting_bytes`` allows it.
        bind: whether to bind the addresses rather than to connect to them.
        options: keys, limits and timeouts.

    Raises:
        ConfigError: An address is malformed, or reaches beyond this machine and ``options`` has no keys.
    """

    def __init__(
        self,
        addr1: str,
        addr2: str | None = None,
        hwm: int = 50,
        bind: bool = True,
        options: RemoteOptions = _DEFAULT_OPTIONS,
    ) -> None:
        addresses = [addr1] if addr2 is None else [addr1, addr2]
        self._addresses = [
            check_address(type(self).__name__, address, options, f"addr{k}") for k, address in enumerate(addresses, 1)
        ]
        hwm = options.num_waiting(check_count(self, "hwm", hwm))
        self._endpoints = [Endpoint("PULL", address, hwm, bind, options) for address in self._addresses]
        self._options = options
        self._is_interrupted = False
        self._num_to_be_closed = 0
        self._patience = _WARN_SECS
        self.stats = RemoteStats()

    def reset_state(self) -> None:
        """Allow iteration after an interruption."""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """End the iteration in another thread with `DataFlowTerminated`, also while it waits for data."""
        self._is_interrupted = True

    def __iter__(self) -> Iterator[Any]:
        """Open the sockets and yield what comes.

        Raises:
            InputError: An address cannot be bound.
            DataFlowTerminated: No data point came within the time limit, or the flow was interrupted.
        """
        zmq = import_optional("zmq", "zmq")
        with open_sockets(*self._endpoints) as sockets:
            monitors = [socket.get_monitor_socket() for socket in sockets]
            try:
                for message in self._messages(zmq, sockets, monitors):
                    point = self._decode(message)
                    if point is not None:
                        self.stats.num_points += 1
                        yield point
            finally:
                for socket in sockets:
                    socket.disable_monitor()

    def _messages(self, zmq: ModuleType, sockets: list[Any], monitors: list[Any]) -> Iterator[memoryview]:
        """Yield messages of all sockets in turn, and count the peers."""
        poller = zmq.Poller()
        for socket in [*sockets, *monitors]:
            poller.register(socket, zmq.POLLIN)
        waits_since, self._patience = time.monotonic(), _WARN_SECS
        while True:
            ready = dict(poller.poll(1000 * _POLL_SECS))
            for monitor in monitors:
                if monitor in ready:
                    self._count_peers(zmq, monitor)
            num_before = self.stats.num_points
            for socket in sockets:
                if socket in ready:
                    yield socket.recv(copy=False).buffer
            if self.stats.num_points > num_before:
                waits_since, self._patience = time.monotonic(), _WARN_SECS
            self._check_wait(waits_since)

    def _check_wait(self, waits_since: float) -> None:
        """Raise at the timeout or after an interruption; log a warning after a long wait."""
        if self._is_interrupted:
            raise DataFlowTerminated(f"{self} was interrupted: use reset_state() to iterate it again")
        limit, silence = self._options.timeout_secs, time.monotonic() - waits_since
        num_peers = self.stats.num_connects - self.stats.num_disconnects
        if limit is not None and silence > limit:
            raise DataFlowTerminated(f"{self} got no data point for {limit} seconds from {num_peers} connected peers")
        if silence > self._patience:
            self._patience *= 2
            logger.warning(
                f"{self} got no data point for {silence:.0f} seconds from {num_peers} connected peers, and waits for "
                "ever; use RemoteOptions(timeout_secs=...) to make that an error"
            )

    def _count_peers(self, zmq: ModuleType, monitor: Any) -> None:
        """Count peers that came and left, and log the departure of the last."""
        stats = self.stats
        for event in drain_events(zmq, monitor):
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                stats.num_connects += 1
            elif event in rejections(zmq):
                stats.num_rejected += 1
                self._num_to_be_closed += 1
            elif event == zmq.EVENT_DISCONNECTED and self._num_to_be_closed > 0:
                # The connection of a rejected peer.
                self._num_to_be_closed -= 1
            elif event == zmq.EVENT_DISCONNECTED:
                stats.num_disconnects += 1
                if stats.num_disconnects == stats.num_connects:
                    logger.warning("%s: the last of its %d peers has disconnected", self, stats.num_connects)

    def _decode(self, message: memoryview) -> Any:
        """Return the data point in a message; None if it is refused."""
        limit = self._options.max_message_bytes
        if message.nbytes > limit:
            self.stats.num_oversized += 1
            reason = f"it has {message.nbytes} bytes, more than {limit}: see RemoteOptions.max_message_bytes"
        else:
            try:
                point = serialize.loads(message)
                if isinstance(point, (list, dict)):
                    return point
                reason = f"it holds a {type(point).__name__}: expected a list or a dict"
            except InputError as error:
                reason = str(error)
            self.stats.num_malformed += 1
        count = self.stats.num_malformed + self.stats.num_oversized
        if count <= _LOGGED_REFUSALS or count % 1000 == 0:
            logger.warning("%s refused a message, the %d. of them: %s", self, count, reason)
        return None

    def __str__(self) -> str:
        return f"RemoteDataZMQ({', '.join(self._addresses)})"


@check_arguments
def send_dataflow_zmq(
    df: DataFlow,
    addr: str,
    hwm: int = 50,
    format: str | None = None,
    bind: bool = False,
    options: RemoteOptions = _DEFAULT_OPTIONS,
) -> None:
    """Send the data points of a flow, pass after pass, to a `RemoteDataZMQ`. It never returns.

    Args:
        df: the flow; ``reset_state`` is called first.
        addr: an address such as ``"tcp://127.0.0.1:5555"`` or ``"ipc:///tmp/name"``.
        hwm: the number of waiting data points in each connection until sending waits.
        format: must be None. (In tensorpack there are formats for operations in C++.)
        bind: whether to bind the address rather than to connect to it.
        options: keys, limits and timeouts.

    Raises:
        ConfigError: The address is malformed, or reaches beyond this machine and ``options`` has no keys; or a format
            is given.
        InputError: The address cannot be bound.
        DataPointError: A data point cannot be serialized, or is larger than allowed.
        DataExhaustedError: A pass has no data point.
        DataFlowTerminated: No peer took a data point within the timeout.
        DependencyError: The package ``pyzmq`` is not installed.
    """
    check_address("send_dataflow_zmq", addr, options)
    if format is not None:
        raise ConfigError(f"send_dataflow_zmq got format={format!r}: expected None, the format of RemoteDataZMQ")
    check_count(df, "hwm", hwm)
    zmq = import_optional("zmq", "zmq")
    df.reset_state()
    with open_sockets(Endpoint("PUSH", addr, hwm, bind, options)) as (socket,):
        socket.sndtimeo = -1 if options.timeout_secs is None else int(1000 * options.timeout_secs)
        logger.info("Sending %s to %s", type(df).__name__, addr)
        for index, point in enumerate(RepeatedData(df, -1)):
            message = _encode(point, index, options)
            try:
                socket.send(message, copy=False)
            except zmq.Again as error:
                limit = options.timeout_secs
                raise DataFlowTerminated(f"no peer at {addr} took data point {index} for {limit} seconds") from error


def _encode(point: object, index: int, options: RemoteOptions) -> bytes:
    message, limit = serialize.dumps(point), options.max_message_bytes
    if len(message) > limit:
        raise DataPointError(
            f"data point {index} makes a message of {len(message)} bytes: expected at most {limit}; use "
            "RemoteOptions(max_message_bytes=...) at both ends"
        )
    return message
