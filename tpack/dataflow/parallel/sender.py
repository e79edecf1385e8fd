"""The producer's end of a channel: data points go into shared memory, and a short record says where.

Small points are gathered into packs, sent when full or a moment after the last message; so there are at most some
thousand messages per second, and no point is held back longer than that moment. `BuiltPoint` makes data points in the
memory from which they are sent, without a copy.
"""

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from tpack.dataflow.parallel.codec import Encoded, Pack, PackLayout, aligned
from tpack.dataflow.parallel.slots import (
    CANCEL,
    MAX_LEASES,
    MIN_SLOT_BYTES,
    RECORD,
    RETURN,
    VIEW_BYTES,
    CancelledError,
    PeerGoneError,
    Record,
    Slots,
)

_READ_BYTES = 4096
_GONE = "the process that the data points go to is gone"
HOLD_SECS = 0.0005
"""The longest time that a small data point is held back."""

_Shape: TypeAlias = int | Sequence[int]

_REST_BYTES = 4096
"""The memory kept free behind the arrays for the pickle."""


class OpenSlot(NamedTuple):
    """A slot, by its generation and number, in whose memory, an array of bytes, a data point is made."""

    generation: int
    slot: int
    memory: np.ndarray


class Sender:
    """Sends data points to one other process, over a connected stream socket.

    Args:
        sock: the socket.
        capacity: the number of data points on their way; a few more in packs.
        has_flusher: whether a thread sends packs in time. Without it the owner calls ``flush`` before it waits.
    """

    # What is held back:
    #
    #     nothing --- put: a small point ---> a pack <--+
    #      ^   |                               |  |     | put: one that is alike
    #      |   | put: a large point,           |  +-----+
    #      +---+ which is sent at once         |
    #      ^                                   |  when it is full, when the moment has passed, and before anything
    #      +------ sent as one message --------+  else is sent, also a point that is not alike: the order is kept
    #
    # Whether the consumer wants the rest of the pass:
    #
    #     wanted --- CANCEL n, read among the slots that come back ---> cancelled   put, open_slot: CancelledError
    #        ^                                                             |        send: as ever
    #        +---------- resume(n), which drops what is held back ---------+
    #
    # A worker may be told to resume before it has read the CANCEL with the same number, which then changes nothing.

    def __init__(self, sock: socket.socket, capacity: int, *, has_flusher: bool) -> None:
        self._sock = sock
        self._capacity = capacity
        self._slots = Slots(functools.partial(_announce, sock), capacity + MAX_LEASES)
        # By generation and slot: the number of data points in the message, and whether the consumer may lease the slot
        # for long. Of the latter as many are not counted as it may lease.
        self._on_their_way: dict[tuple[int, int], tuple[int, bool]] = {}
        self._waiting = 0
        self._leasable = 0
        self._unread = b""
        self._layout: PackLayout | None = None
        self._pack: Pack | None = None
        self._pack_slot = 0
        self._dropped = 0
        self._last_sent = 0.0
        self._lock = threading.Lock()
        self._flusher = _Flusher(self.flush) if has_flusher else None
        # The numbers of the last cancellation, and of the last one after which sending was resumed.
        self._cancelled = self._resumed = 0

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with returned slots or the end of the other process."""
        return self._sock.fileno()

    def put(self, point: object) -> None:
        """Send a data point, or None, after waiting for room.

        Raises:
            PeerGoneError: The other process is gone.
            CancelledError: The consumer has cancelled the pass.
            DataPointError: The point cannot be pickled.
            InputError: There is not enough shared memory.
        """
        with self._lock:
            self._put(point, wait=True)

    def try_put(self, point: object) -> bool:
        """Send a data point as ``put`` does, or return False without room."""
        with self._lock:
            if self._pack is None:
                self._read_returns(wait=False)
            return self._put(point, wait=False)

    def open_slot(self, size_bytes: int) -> OpenSlot:
        """Take a slot for a point, after waiting, for ``put_encoded`` or ``give_up``; raise as ``put`` does."""
        with self._lock:
            # Nothing is held back while waiting here.
            self._flush()
            slot = self._wait_for_slot(max(size_bytes, MIN_SLOT_BYTES))
            return OpenSlot(self._slots.generation, slot, self._slots.memory(slot))

    def put_encoded(self, encoded: Encoded, opened: OpenSlot | None, spare_bytes: int = 0) -> None:
        """Send a data point, after those that were put before.

        It is laid out around arrays in the slot, which is given away. If the point is too large for it, or it is None,
        the point is copied into another, with some spare memory.
        """
        with self._lock:
            self._flush()
            if opened is not None:
                # A large message in between may have begun another generation.
                if (
                    opened.generation == self._slots.generation
                    and encoded.size_bytes <= opened.memory.size - spare_bytes
                ):
                    self._write(Record.POINT, opened.slot, encoded, 1)
                    return
                self._slots.give_back(opened.generation, opened.slot)
            encoded.lay_out(lambda array: None, 0)
            self._write(Record.POINT, self._wait_for_slot(encoded.size_bytes + spare_bytes), encoded, 1)

    def give_up(self, opened: OpenSlot) -> None:
        """Take back an unused slot."""
        with self._lock:
            self._slots.give_back(opened.generation, opened.slot)

    def send(self, kind: Record, obj: object = None, *, number: int = 0) -> None:
        """Send another message than a data point, after those put: an object, or only a number without a slot."""
        with self._lock:
            self._flush()
            if obj is None:
                self._send_record(kind, 0, 0, number, 0)
                return
            encoded = Encoded(obj)
            # A consumer that has cancelled still takes messages.
            self._write(kind, self._wait_for_slot(encoded.size_bytes, is_wanted=True), encoded, 0)

    def flush(self) -> None:
        """Send the pack."""
        with self._lock:
            self._flush()

    def resume(self, number: int) -> None:
        """Forget points put before the cancellation of this number, which may arrive later, and send again."""
        with self._lock:
            if self._pack is not None:
                self._slots.give_back(self._slots.generation, self._pack_slot)
            self._pack, self._dropped = None, 0
            self._resumed = self._cancelled = number

    def close(self) -> None:
        """Close the channel without sending the pack."""
        if self._flusher is not None:
            self._flusher.stop()
        self._sock.close()

    def _put(self, point: object, *, wait: bool) -> bool:
        if self._cancelled != self._resumed:
            raise CancelledError
        if self._pack is None and point is None:
            self._dropped += 1
        elif self._pack is None or not self._pack.add(point):
            self._flush()
            return self._put_first(point, wait=wait)
        self._flush_if_due(self._pack)
        return True

    def _put_first(self, point: object, *, wait: bool) -> bool:
        """Begin a pack with a point, or send the point in a message of its own."""
        if not wait and not (self._may_send and self._slots.can_take):
            return False
        if self._layout is None or not self._layout.takes(point):
            self._layout = PackLayout(point)
        encoded = None if self._layout.takes(point) else Encoded(point)
        size = MIN_SLOT_BYTES if encoded is None else encoded.size_bytes
        if wait:
            slot: int | None = self._wait_for_slot(size)
        else:
            slot = self._slots.take(size) if self._may_send else None
        if slot is None:
            return False
        if encoded is not None:
            self._write(Record.POINT, slot, encoded, 1)
            return True
        self._pack, self._pack_slot = Pack(self._layout, self._slots.memory(slot), max(1, self._capacity // 4)), slot
        self._pack.add(point)
        self._flush_if_due(self._pack)
        return True

    def _flush_if_due(self, pack: Pack | None) -> None:
        if (pack is not None and pack.is_full) or time.monotonic() - self._last_sent >= HOLD_SECS:
            self._flush()
        elif self._flusher is not None and not self._flusher.is_expected:
            self._flusher.expect()

    def _flush(self) -> None:
        if self._pack is not None:
            pack, self._pack = self._pack, None
            start, size = pack.finish()
            self._count(self._pack_slot, pack.count, False)
            self._send_record(Record.PACK, self._pack_slot, pack.count, start, size)
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self._send_record(Record.DROPPED, 0, count, 0, 0)

    def _write(self, kind: Record, slot: int, encoded: Encoded, points: int) -> None:
        encoded.write(self._slots.memory(slot))
        self._count(slot, points, encoded.largest_array >= VIEW_BYTES)
        self._send_record(kind, slot, points, encoded.rest_start, encoded.rest_size)

    def _count(self, slot: int, points: int, is_leasable: bool) -> None:
        self._on_their_way[self._slots.generation, slot] = points, is_leasable
        self._waiting += 0 if is_leasable else points
        self._leasable += is_leasable

    def _send_record(self, kind: Record, slot: int, points: int, start: int, size: int) -> None:
        self._last_sent = time.monotonic()
        try:
            self._sock.sendall(RECORD.pack(kind, slot, points, start, size))
        except OSError as error:
            raise PeerGoneError(_GONE) from error
        self._read_returns(wait=False)

    @property
    def _may_send(self) -> bool:
        """Whether fewer data points than allowed are on their way."""
        return self._waiting + max(0, self._leasable - MAX_LEASES) < self._capacity

    def _wait_for_slot(self, size_bytes: int, *, is_wanted: bool = False) -> int:
        while True:
            if self._cancelled != self._resumed and not is_wanted:
                raise CancelledError
            slot = self._slots.take(size_bytes) if self._may_send else None
            if slot is not None:
                return slot
            self._read_returns(wait=True)

    def _read_returns(self, *, wait: bool) -> None:
        """Record the slots that came back."""
        try:
            received = self._sock.recv(_READ_BYTES, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerGoneError(_GONE) from error
        if not received:
            raise PeerGoneError(_GONE)
        received = self._unread + received
        whole = len(received) // RETURN.size * RETURN.size
        self._unread = received[whole:]
        for generation, slot in RETURN.iter_unpack(received[:whole]):
            if generation == CANCEL:
                self._cancelled = slot
                continue
            points, is_leasable = self._on_their_way.pop((generation, slot))
            self._waiting -= 0 if is_leasable else points
            self._leasable -= is_leasable
            self._slots.give_back(generation, slot)


def _announce(sock: socket.socket, descriptor: int, generation: int, count: int, slot_bytes: int, is_new: bool) -> None:
    record = RECORD.pack(Record.BLOCK, generation, count, slot_bytes, int(is_new))
    try:
        socket.send_fds(sock, [record], [descriptor])
    except OSError as error:
        raise PeerGoneError(_GONE) from error


class _Flusher:
    """A thread, started when first needed, that calls a function which sends the pack, a moment later."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        # Whether it will flush soon.
        self.is_expected = False
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def expect(self) -> None:
        """Flush soon."""
        if self.is_expected:
            return
        self.is_expected = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tpack-flusher", daemon=True)
            self._thread.start()
        self._due.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._due.set()

    def _run(self) -> None:
        # The thread that puts the next point finds the end of the other process, too.
        with contextlib.suppress(PeerGoneError):
            while True:
                self._due.wait()
                self._due.clear()
                if self._stopped.wait(HOLD_SECS):
                    return
                self.is_expected = False
                self._flush()


class BuiltPoint:
    """One data point at a time that is made and sent, or given up; the slot is free after a failure."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # Set with the first array.
        self._opened: OpenSlot | None = None
        self._arena = _Arena(np.empty(0, np.uint8))

    def empty(self, shape: _Shape, dtype: DTypeLike) -> np.ndarray:
        """Return an array as ``np.empty`` does, in shared memory if there is room; the first one waits for a slot.

        It must not change after ``send`` or ``give_up``. The errors are those of ``Sender.put``.
        """
        if self._opened is None and not np.dtype(dtype).hasobject:
            self._opened = self._sender.open_slot(_size_bytes(shape, dtype) + _REST_BYTES)
            self._arena = _Arena(self._opened.memory)
        return self._arena.empty(shape, dtype)

    def send(self, point: object) -> None:
        """Send the data point, of arrays from ``empty``, parts, or others; raise DataPointError for bad ones."""
        try:
            encoded = Encoded(point)
        except BaseException:
            self.give_up()
            raise
        opened, arena = self._opened, self._arena
        self._opened = None
        encoded.lay_out(arena.start_of, arena.end)
        # An array without room needs a larger slot for the next point.
        self._sender.put_encoded(encoded, opened, _REST_BYTES if arena.is_short else 0)

    def give_up(self) -> None:
        """Drop the point; the next one begins."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._sender.give_up(opened)


class _Arena:
    """Free memory of a slot, in which arrays are made."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        # The beginning of free memory.
        self.end = 0
        # Whether an array had no room.
        self.is_short = False

    def empty(self, shape: _Shape, dtype: DTypeLike) -> np.ndarray:
        """Return an array as ``np.empty`` does, in the slot if there is room."""
        item = np.dtype(dtype)
        start = aligned(self.end)
        end = start + _size_bytes(shape, item)
        if item.hasobject:
            return np.empty(shape, item)
        if end + _REST_BYTES > self._memory.size:
            self.is_short = True
            return np.empty(shape, item)
        self.end = end
        return np.ndarray(shape, item, self._memory, start)

    def start_of(self, array: np.ndarray) -> int | None:
        """Return the place of an array in the slot, or None if it is elsewhere."""
        start = _address(array) - _address(self._memory)
        is_inside = start >= 0 and start + array.nbytes <= self.end
        return start if is_inside and array.flags.c_contiguous else None


def _size_bytes(shape: _Shape, dtype: DTypeLike) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
