"""Messages between two processes over one connection, sent and received without waiting.

A message is a header, which is JSON, and bytes, which may be many. Whoever has a channel looks by itself for when there
is something to read, or room to write; so one thread serves many of them, and none that is slow stops the others.
"""

import contextlib
import functools
import json
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from collections import deque
from typing import Any, NamedTuple

_SIZES = struct.Struct(">IQ")
_LONGEST_HEADER = 1 << 20
# So much is read before others have their turn.
_MOST_READ = 1 << 22
_READ_SIZE = 1 << 18
_OPEN: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


class ControlMessage(NamedTuple):
    """What one side says.

    Attributes:
        header: what it is about; JSON.
        data: the bytes that belong to it.
    """

    header: dict[str, Any]
    data: bytes


class Channel:
    """One end of a connection.

    Args:
        connection: a connected socket, which the channel closes.
        largest: the most bytes that a message may have.

    Attributes:
        heard_at: when something came last, by the monotonic clock.
    """

    def __init__(self, connection: socket.socket, largest: int) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._largest = largest
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unread = bytearray()
        self.heard_at = time.monotonic()
        close_in_children(connection)

    def fileno(self) -> int:
        """Return the descriptor; -1 once it is closed."""
        return self._connection.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for room to be written."""
        return bool(self._unsent)

    @property
    def events(self) -> int:
        """What to look for by a selector."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def send(self, header: dict[str, Any], data: bytes = b"") -> None:
        """Have a message sent by the next `flush`; may be called from any thread."""
        text = json.dumps(header).encode()
        parts = [_SIZES.pack(len(text), len(data)) + text, *([data] if data else [])]
        with self._lock:
            self._unsent.extend(memoryview(part) for part in parts)

    def flush(self) -> None:
        """Write what there is room for.

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
        """Return the messages that have come as a whole.

        Raises:
            EOFError: Nothing more will come.
            OSError: The connection is broken.
            ValueError: What came is no message.
        """
        found: list[ControlMessage] = []
        num_read = 0
        while num_read < _MOST_READ:
            try:
                part = self._connection.recv(_READ_SIZE)
            except BlockingIOError:
                break
            except OSError:
                # What came before the end counts; the end is found once more by the next call.
                if found:
                    break
                raise
            if not part:
                if num_read:
                    break
                raise EOFError
            num_read += len(part)
            self._unread += part
            found += self._whole_messages()
        if num_read:
            self.heard_at = time.monotonic()
        return found

    def _whole_messages(self) -> list[ControlMessage]:
        found = []
        while len(self._unread) >= _SIZES.size:
            header_size, data_size = _SIZES.unpack_from(self._unread)
            if header_size > _LONGEST_HEADER or data_size > self._largest:
                raise ValueError(f"a message of {header_size} and {data_size} bytes")
            end = _SIZES.size + header_size + data_size
            if len(self._unread) < end:
                break
            header = json.loads(self._unread[_SIZES.size : _SIZES.size + header_size])
            if not isinstance(header, dict):
                raise ValueError("a message whose header is no object")
            found.append(ControlMessage(header, bytes(self._unread[_SIZES.size + header_size : end])))
            del self._unread[:end]
        return found

    def finish(self) -> None:
        """Say that nothing more will be sent; the other side can still be heard."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Waker:
    """Wakes a thread that waits by a selector."""

    def __init__(self) -> None:
        self._woken, self._wakes = socket.socketpair()
        for end in (self._woken, self._wakes):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._woken.fileno()

    def wake(self) -> None:
        """Wake the thread; may be called from any thread, also when nobody waits any more."""
        with contextlib.suppress(OSError):
            self._wakes.send(b"\0")

    def clear(self) -> None:
        """Go back to sleep."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        self._woken.close()
        self._wakes.close()


def close_in_children(connection: socket.socket) -> None:
    """Keep processes that this one forks from holding a connection, which would look alive when this one is killed.

    Args:
        connection: is not kept alive by this.
    """
    _OPEN.add(connection)
    _close_after_fork()


@functools.cache
def _close_after_fork() -> None:
    """See to it once; a function that is called after a fork cannot be taken back."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for connection in list(_OPEN):
        connection.close()
