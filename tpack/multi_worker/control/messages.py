"""Framing and non-blocking transport of the control channel.

A message is a JSON header and bytes. Its frame begins with the sizes of both, in 12 bytes. A `Channel` sends and
receives without blocking, so that one thread can serve many with a selector; `send_now` and `receive_now` exchange
messages without data on a blocking socket, for the client side of the handshake.
"""

import contextlib
import functools
import itertools
import json
import math
import os
import resource
import selectors
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tpack.errors import ClusterError

_SIZES = struct.Struct(">IQ")
_LONGEST_HEADER = 1 << 20
# Bytes that are read from one channel before the others have their turn.
_MOST_READ = 1 << 22
_READ_SIZE = 1 << 18
# Of a peer that has not proven the secret.
LONGEST_HELLO = 1 << 12
# Of files, libraries and connections of TensorFlow.
_OTHER_DESCRIPTORS = 512
_OPEN: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


class ControlMessage(NamedTuple):
    """A message of the control channel."""

    header: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Timeouts:
    """Timeouts of the control channel, and the limit of one value.

    Attributes:
        heartbeat_secs: of silence, after which a worker is lost.
        straggler_secs: after which a worker that others wait for is named.
        timeout_secs: how long each waits for the others.
        largest: the limit of one value, in bytes.
        step_timeout_secs: after which a worker is lost whose part of a step others wait for.
    """

    heartbeat_secs: float
    straggler_secs: float
    timeout_secs: float
    largest: int
    step_timeout_secs: float = math.inf

    @property
    def beat_secs(self) -> float:
        """The time between two heartbeats."""
        return self.heartbeat_secs / 4


class Channel:
    """One end of a connection.

    Args:
        connection: a connected socket, which the channel closes.
        largest: the limit of a message's data, in bytes.
        longest_header: the limit of its header, in bytes.

    Attributes:
        heard_at: the time of the last data received, by the monotonic clock.
    """

    def __init__(self, connection: socket.socket, largest: int, longest_header: int = _LONGEST_HEADER) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._limits = longest_header, largest
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unread = bytearray()
        self.heard_at = time.monotonic()
        close_in_children(connection)

    def allow(self, largest: int) -> None:
        """Raise the limit of a message's data, in bytes, and of its header to that of a proven peer."""
        self._limits = _LONGEST_HEADER, largest

    def fileno(self) -> int:
        """Return the descriptor; -1 once it is closed."""
        return self._connection.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether data waits to be written."""
        return bool(self._unsent)

    @property
    def events(self) -> int:
        """The events to register with a selector."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def send(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Queue a message for the next `flush`; may be called from any thread."""
        self.put(framed(header, data))

    def put(self, parts: Sequence[bytes]) -> None:
        """Queue a message of `framed`, which several channels may share; may be called from any thread."""
        with self._lock:
            self._unsent.extend(map(memoryview, parts))

    def flush(self) -> None:
        """Write as much as the socket takes.

        Raises:
            OSError: The connection is broken.
        """
        with self._lock, contextlib.suppress(BlockingIOError):
            while self._unsent:
                part = self._unsent[0]
                sent = self._connection.send(part)
                if sent == len(part):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = part[sent:]

    def receive(self) -> list[ControlMessage]:
        """Return the messages that are complete.

        Raises:
            EOFError: The other side has closed the connection.
            OSError: The connection is broken.
            ValueError: The data are not a message, or exceed the limits.
        """
        found: list[ControlMessage] = []
        num_read, largest = 0, _SIZES.size + sum(self._limits)
        while num_read < min(_MOST_READ, largest):
            try:
                # Not more than one message of the largest size is kept.
                part = self._connection.recv(min(_READ_SIZE, largest - len(self._unread)))
            except BlockingIOError:
                break
            except OSError:
                # Data from before the end count; the next call finds the end again.
                if found:
                    break
                raise
            if not part:
                if num_read:
                    break
                raise EOFError
            num_read += len(part)
            self._unread += part
            found += iter(self._next_message, None)
        if num_read:
            self.heard_at = time.monotonic()
        return found

    def _next_message(self) -> ControlMessage | None:
        """Take the next message out of the data read so far; None while it is incomplete."""
        if len(self._unread) < _SIZES.size:
            return None
        header_size, data_size = _checked_sizes(self._unread, *self._limits)
        begin = _SIZES.size + header_size
        if len(self._unread) < begin + data_size:
            return None
        message = ControlMessage(
            _header_of(self._unread[_SIZES.size : begin]), bytes(self._unread[begin : begin + data_size])
        )
        del self._unread[: begin + data_size]
        return message

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def send_now(connection: socket.socket, header: dict[str, Any]) -> None:
    """Send a message without data on a blocking socket."""
    connection.sendall(b"".join(framed(header)))


def receive_now(
    connection: socket.socket, timeout_secs: float, longest_header: int = _LONGEST_HEADER
) -> dict[str, Any]:
    """Return the header of the next message without data of a blocking socket, which is left with a timeout.

    Raises:
        OSError: The connection was closed or is broken, or the message did not arrive in time.
        ValueError: The data are not such a message.
    """
    deadline = time.monotonic() + timeout_secs

    def read(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            part = connection.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the connection was closed")
            data += part
        return bytes(data)

    header_size, _ = _checked_sizes(read(_SIZES.size), longest_header, 0)
    return _header_of(read(header_size))


def framed(header: Mapping[str, Any], data: bytes = b"") -> list[bytes]:
    """Return a message as the parts of its frame."""
    text = json.dumps(header).encode()
    return [_SIZES.pack(len(text), len(data)) + text, *([data] if data else [])]


def _checked_sizes(frame: bytes | bytearray, longest_header: int, largest: int) -> tuple[int, int]:
    header_size, data_size = _SIZES.unpack_from(frame)
    if header_size > longest_header or data_size > largest:
        raise ValueError(f"a message of {header_size} and {data_size} bytes")
    return header_size, data_size


def _header_of(text: bytes | bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except RecursionError as error:
        raise ValueError("a message that is nested too deeply") from error
    if not isinstance(header, dict):
        raise ValueError("a message whose header is not an object")
    return header


def allow_descriptors(count: int, what: str) -> None:
    """Let this process open some descriptors beside its others, as far as its limits are its own to raise.

    Args:
        count: the number.
        what: what needs them, in words.

    Raises:
        ClusterError: The hard limit of the system is lower.
    """
    wanted = count + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise ClusterError(
            f"{what} needs {count} descriptors, and this process may open {hard} (RLIMIT_NOFILE): expected at least "
            f"{wanted}; raise the hard limit, such as by LimitNOFILE= of systemd or nofile in limits.conf"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def result_of(number: int, values: Sequence[bytes]) -> list[bytes]:
    """Return the message with the values of an exchange, in the order of the ranks.

    A value that several workers have travels once, and of neighbours with the same one the number: most exchanges, such
    as barriers and comparisons, are as short for a thousand workers as for two.
    """
    places: dict[bytes, int] = {}
    runs: list[list[int]] = []
    for value in values:
        place = places.setdefault(value, len(places))
        if runs and runs[-1][0] == place:
            runs[-1][1] += 1
        else:
            runs.append([place, 1])
    header = {"do": "result", "number": number, "sizes": [len(value) for value in places], "runs": runs}
    return framed(header, b"".join(places))


def values_of(message: ControlMessage) -> list[bytes]:
    """Return the values in a message of `result_of`."""
    ends = list(itertools.accumulate(message.header["sizes"], initial=0))
    distinct = [message.data[begin:end] for begin, end in itertools.pairwise(ends)]
    return [distinct[place] for place, count in message.header["runs"] for _ in range(count)]


class Waker:
    """A way to wake a thread that waits on a selector."""

    def __init__(self) -> None:
        self._woken, self._wakes = socket.socketpair()
        for end in (self._woken, self._wakes):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._woken.fileno()

    def wake(self) -> None:
        """Wake the thread; may be called from any thread, also after `close`."""
        with contextlib.suppress(OSError):
            self._wakes.send(b"\0")

    def clear(self) -> None:
        """Reset it."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        self._woken.close()
        self._wakes.close()


def close_in_children(connection: socket.socket) -> None:
    """Close a socket in forked children, which would keep the connection alive when this process is killed."""
    _OPEN.add(connection)
    _close_after_fork()


@functools.cache
def _close_after_fork() -> None:
    """Register once: a function that is called after a fork cannot be removed."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for connection in list(_OPEN):
        connection.close()


def lost_connection(name: str, error: Exception) -> str:
    """Return the message for a connection to ``name`` that has ended with an error of its channel."""
    is_closed = isinstance(error, EOFError)
    what = "its connection was closed without a farewell" if is_closed else f"its connection broke ({error})"
    return f"{name} was lost: {what}. It was killed, or crashed, or ended without closing"


def silent_peer(name: str, secs: float, to: str) -> str:
    """Return the message for a peer that has sent nothing for longer than the heartbeat timeout."""
    return f"{name} was lost: no heartbeat for {secs:g} s. It is stopped, or hangs, or its network to {to} is down"
