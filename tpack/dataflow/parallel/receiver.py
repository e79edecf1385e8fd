"""The consumer's end of a channel: data points from shared memory, as views or copies.

The slot of a large array, a view, is leased until the first look for a message after the array is gone. Small arrays
are copied, which costs less, and so is everything when few slots are left: two always circulate, so that a consumer
that keeps its points cannot stop the producer.
"""

import array
import contextlib
import os
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpack.dataflow.parallel.codec import ArraySpec, decode, unpack
from tpack.dataflow.parallel.slots import (
    CANCEL,
    MAX_LEASES,
    RECORD,
    RETURN,
    VIEW_BYTES,
    Leases,
    MemoryBlock,
    PeerGoneError,
    Record,
    split,
)
from tpack.errors import InputError

_CIRCULATING_SLOTS = 2
_READ_BYTES = 4096
_MAX_DESCRIPTORS = 16
_DESCRIPTORS = array.array("i")
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True)
class Message:
    """A received message: data points or another object, and the number of the command that it answers, if any."""

    kind: Record
    points: list[Any]
    number: int = 0


@dataclass(frozen=True)
class _Generation:
    """Slots of one size, kept by their messages even after the next generation has begun."""

    number: int
    slots: list[np.ndarray] = field(default_factory=list)


class Receiver:
    """Receives the messages of a ``Sender`` from a connected stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._unread = b""
        self._descriptors: deque[int] = deque()
        self._records: deque[tuple[_Generation, int, int, int, int, int]] = deque()
        self._generation = _Generation(0)
        self._leases = Leases()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with a message or the end of the other process."""
        return self._sock.fileno()

    @property
    def has_message(self) -> bool:
        """Whether a message can be taken."""
        return bool(self._records)

    def fill(self, *, wait: bool) -> bool:
        """Read messages, maybe after waiting for one; return False if the other process is gone and none will come.

        Raises:
            InputError: Memory came that cannot be opened.
        """
        self.return_ended()
        while True:
            try:
                data = self._read_some(0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except ConnectionResetError:
                return False
            self._split(data)
            # New memory comes by itself, and its messages may be there already.
            if self._records or not data:
                return bool(data)

    def _split(self, data: bytes) -> None:
        """Split data into records."""
        unread = self._unread + data
        whole = len(unread) // RECORD.size * RECORD.size
        self._unread = unread[whole:]
        for record in RECORD.iter_unpack(unread[:whole]):
            if record[0] == Record.BLOCK:
                self._add_block(*record[1:])
            else:
                self._records.append((self._generation, *record))

    def _read_some(self, flags: int) -> bytes:
        """Read from the socket; keep the descriptors that come along."""
        space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * _DESCRIPTORS.itemsize)
        # Not socket.recv_fds, which ignores its flags.
        data, extras, _, _ = self._sock.recvmsg(_READ_BYTES, space, flags | _CLOSE_ON_EXEC)
        for level, kind, content in extras:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors = array.array(_DESCRIPTORS.typecode)
                descriptors.frombytes(content[: len(content) // _DESCRIPTORS.itemsize * _DESCRIPTORS.itemsize])
                self._descriptors += descriptors
        return data

    def take(self) -> Message:
        """Return the oldest message; raise IndexError if there is none."""
        self.return_ended()
        generation, kind, slot, points, start, size = self._records.popleft()
        if size == 0:
            return Message(Record(kind), [None] * points, start)
        read = self._unpack if kind == Record.PACK else self._decode
        return Message(Record(kind), read(generation, slot, start, size))

    def receive(self) -> Message:
        """Return the next message, after waiting for it; raise PeerGoneError if the other process is gone."""
        while not self._records:
            if not self.fill(wait=True):
                raise PeerGoneError("the process that the data points come from is gone")
        return self.take()

    def return_ended(self) -> None:
        """Give back the slots whose leases have ended."""
        for generation, slot in self._leases.pop_ended():
            self._give_back(generation, slot)

    def cancel(self, number: int) -> None:
        """Cancel the pass until the producer resumes with this number; earlier messages still come."""
        with contextlib.suppress(OSError):
            self._sock.sendall(RETURN.pack(CANCEL, number))

    def close(self) -> None:
        """Close the channel. Arrays that were handed out stay valid."""
        self._sock.close()
        self._records.clear()
        self._generation = _Generation(0)
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _add_block(self, number: int, count: int, slot_bytes: int, is_new: int) -> None:
        """Map new slots of the producer."""
        if not self._descriptors:
            # The kernel drops descriptors beyond the limit of a process.
            raise InputError(
                "shared memory of another process cannot be opened: this process has too many open files; use a higher "
                "`ulimit -n`, or fewer workers"
            )
        descriptor = self._descriptors.popleft()
        try:
            block = MemoryBlock(descriptor, slot_bytes * count)
        finally:
            os.close(descriptor)
        if is_new:
            self._generation = _Generation(number)
        self._generation.slots.extend(split(block, count))

    def _unpack(self, generation: _Generation, slot: int, start: int, size: int) -> list[Any]:
        points = unpack(generation.slots[slot], start, size)
        self._give_back(generation.number, slot)
        return points

    def _decode(self, generation: _Generation, slot: int, start: int, size: int) -> list[Any]:
        memory = generation.slots[slot]
        leased: list[np.ndarray] = []

        def take(spec: ArraySpec) -> np.ndarray:
            if not leased and spec.size_bytes >= VIEW_BYTES and self._may_lease(generation):
                leased.append(self._leases.lease(generation.number, slot, memory))
            if leased and spec.size_bytes >= VIEW_BYTES:
                return spec.view(leased[0])
            return np.array(spec.view(memory), order="K")

        point = decode(memory, start, size, take)
        if not leased:
            self._give_back(generation.number, slot)
        return [point]

    def _may_lease(self, generation: _Generation) -> bool:
        of_this = self._leases.count(generation.number)
        return len(self._leases) < MAX_LEASES and of_this < len(generation.slots) - _CIRCULATING_SLOTS

    def _give_back(self, generation: int, slot: int) -> None:
        with contextlib.suppress(OSError):
            self._sock.sendall(RETURN.pack(generation, slot))
