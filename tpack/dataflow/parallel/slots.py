"""Slots: pieces of shared memory of one size, each for one message at a time, and the records about them.

The producer takes a free slot (`Slots`), writes, and sends a record over the socket. The consumer reads, and the slot
goes back; if it hands out views, the slot is leased (`Leases`) until the last of them is gone, with everything that
holds one (a feed of TensorFlow, too). Memory in use is never overwritten.

The memory (`MemoryBlock`) is an unnamed file in the memory file system, sent to the other process as a descriptor. The
kernel frees it with the last mapping, so SIGKILL at any moment leaves nothing in /dev/shm, unlike the named blocks of
``multiprocessing.shared_memory``.

Records of the producer (a new block, a message in a slot) have one size, returns of the consumer (a free slot, or a
cancellation) another. Both go over one pair of sockets, at most one for each slot at a time, so writing never waits.
"""

import contextlib
import ctypes
import enum
import importlib
import mmap
import os
import struct
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tpack.errors import InputError

RECORD = struct.Struct("<BxHIQQ")
"""Kind, slot, number of data points, beginning of the message in the slot, its size."""

RETURN = struct.Struct("<HH")
"""Generation and number of the slot."""

CANCEL = 0xFFFF
"""The generation of a return that cancels the pass. The slot is the number of the cancellation."""

MAX_NUMBER = 0xFFFF
"""The greatest number of a cancellation, after which comes 1."""

MAX_SLOTS = 128
"""The greatest number of slots; their returns fit into the smallest usual buffer of a socket."""

VIEW_BYTES = 64 * 1024
"""The size from which an array is a view; a smaller copy costs no more than returning a slot later."""

MAX_LEASES = 8
"""The greatest number of slots that the consumer leases; beyond it copies."""

# The memory file system of Linux. Elsewhere blocks are unnamed files in the directory for temporary files.
SHARED_MEMORY = Path("/dev/shm")

MIN_SLOT_BYTES = 128 * 1024
# The consumer may keep two while a third is read and a fourth is written.
_FIRST_SLOTS = 4

_BUDGET_BYTES = 96 * 1024 * 1024
_PAGE_BYTES = 4096
_MAP_FAILED = ctypes.c_void_p(-1).value
_Key = tuple[int, int]


class Record(enum.IntEnum):
    """The kinds of records."""

    BLOCK = 0
    """More slots: their generation, their number, their size, and 1 if they replace all others. With a descriptor."""
    POINT = 1
    """One data point."""
    PACK = 2
    """Several small data points."""
    DROPPED = 3
    """Data points that the function dropped; without a slot."""
    ERROR = 4
    """An exception."""
    END = 5
    """The end of a pass; without a slot."""
    BEGUN = 6
    """All messages before a command were sent; sent again when the pass has begun. Without a slot."""
    STATE = 7
    """The position before the next data point."""
    COMMAND = 8
    """From the owner to a worker: begin a pass."""
    FATAL = 9
    """An exception that has ended the worker."""
    READY = 10
    """The worker has started and loaded its payload. Without a slot."""


class PeerGoneError(EOFError):
    """The other process has closed its end, or died."""


class CancelledError(Exception):
    """The consumer has cancelled the rest of the pass."""


class MemoryBlock:
    """A piece of shared memory, an open file, mapped into this process as long as an array uses it."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        # The array keeps the mapping, and each array made of it keeps the mapping too.
        self.memory: np.ndarray = np.frombuffer(memoryview(_map(descriptor, size_bytes)), np.uint8)


def _map(descriptor: int, size_bytes: int) -> ctypes.Array[ctypes.c_uint8]:
    """Map a file into memory for the lifetime of the result; Python's ``mmap`` would keep a scarce descriptor."""
    if os.fstat(descriptor).st_size < size_bytes:
        raise ValueError(f"a file of {os.fstat(descriptor).st_size:,} bytes cannot be mapped: expected {size_bytes:,}")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory = (ctypes.c_uint8 * size_bytes).from_address(address)
    weakref.finalize(memory, libc.munmap, address, size_bytes).atexit = False
    return memory


def create_block(size_bytes: int) -> tuple[MemoryBlock, int]:
    """Make a block of allocated memory, and a descriptor to be sent and closed; raise InputError without memory."""
    tempfile = importlib.import_module("tempfile")
    directory = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    with tempfile.TemporaryFile(dir=directory) as file:
        try:
            # Allocated now, since a full file system otherwise shows in a fatal SIGBUS at the first write.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size_bytes)
            else:
                os.ftruncate(file.fileno(), size_bytes)
            block = MemoryBlock(file.fileno(), size_bytes)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"{directory} has {_free_bytes(directory)} bytes left, and data points need {size_bytes:,} of shared "
                f"memory ({error}): use more, as with `docker run --shm-size`, or fewer or smaller waiting data points"
            ) from error
        return block, os.dup(file.fileno())


def _free_bytes(directory: Path) -> str:
    with contextlib.suppress(OSError):
        status = os.statvfs(directory)
        return f"{status.f_bavail * status.f_frsize:,}"
    return "an unknown number"


class Slots:
    """The slots of one channel, as its producer sees them.

    A message larger than a slot begins a new generation of larger ones; the old ones go when they are unused. When all
    are on their way, more are made, up to a maximum, or until the memory file system is full.

    Args:
        announce: sends a block: descriptor, generation, number of slots in it, their size, and whether they replace all
            others.
        most: the maximum number of small slots; a few more than messages may wait.
    """

    def __init__(self, announce: Callable[[int, int, int, int, bool], None], most: int) -> None:
        self._announce = announce
        self._wanted = self._most = max(_FIRST_SLOTS, min(most, MAX_SLOTS))
        self._memories: list[np.ndarray] = []
        self._free: list[int] = []
        self.generation = 0
        self.slot_bytes = 0

    def take(self, size_bytes: int) -> int | None:
        """Return the free slot of some size used last, or None; raise InputError without memory for one slot."""
        if size_bytes > self.slot_bytes:
            self._begin_generation(size_bytes)
        elif not self._free and len(self._memories) < self._most:
            self._add_slots()
        return self._free.pop() if self._free else None

    @property
    def can_take(self) -> bool:
        """Whether there is a free slot, or room for a new one."""
        return bool(self._free) or len(self._memories) < self._most or not self._memories

    def memory(self, slot: int) -> np.ndarray:
        """Return the memory of a slot as an array of bytes."""
        return self._memories[slot]

    def give_back(self, generation: int, slot: int) -> None:
        """Record a slot as free; one of an old generation is not used again."""
        if generation == self.generation:
            self._free.append(slot)

    def _begin_generation(self, size_bytes: int) -> None:
        """Make slots of a new size, and forget the others."""
        # Messages that have grown may grow more.
        room = size_bytes // 4 if self.generation else 0
        slot_bytes = _whole_pages(max(MIN_SLOT_BYTES, size_bytes + room))
        try:
            block, descriptor, count = _create(slot_bytes, _FIRST_SLOTS)
        except InputError:
            slot_bytes = _whole_pages(size_bytes)
            block, descriptor, count = _create(slot_bytes, 1)
        self.generation = self.generation % (CANCEL - 1) + 1
        self.slot_bytes = slot_bytes
        in_budget = max(_FIRST_SLOTS, min(self._wanted, _BUDGET_BYTES // slot_bytes))
        self._most = in_budget if count == _FIRST_SLOTS else count
        self._memories, self._free = [], []
        self._append(block, descriptor, count, True)

    def _add_slots(self) -> None:
        """Make more slots of the same size, if there is memory."""
        wanted = min(len(self._memories), self._most - len(self._memories))
        try:
            block, descriptor, count = _create(self.slot_bytes, wanted)
        except InputError:
            self._most = len(self._memories)
            return
        self._append(block, descriptor, count, False)

    def _append(self, block: MemoryBlock, descriptor: int, count: int, is_new: bool) -> None:
        first = len(self._memories)
        self._memories += split(block, count)
        self._free += range(first + count - 1, first - 1, -1)
        try:
            self._announce(descriptor, self.generation, count, self.slot_bytes, is_new)
        finally:
            os.close(descriptor)


def split(block: MemoryBlock, count: int) -> list[np.ndarray]:
    """Return the slots of a block."""
    return list(block.memory.reshape(count, -1))


def _create(slot_bytes: int, count: int) -> tuple[MemoryBlock, int, int]:
    """Make a block for as many slots as there is memory for, up to ``count``."""
    while count > 1:
        try:
            return *create_block(slot_bytes * count), count
        except InputError:
            count //= 2
    return *create_block(slot_bytes), 1


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES


class Leases:
    """The slots that the consumer has leased, each as long as an array of its memory exists.

    The ends of arrays are looked up: a callback would run in any thread at any moment, and would swallow a Ctrl-C.
    """

    def __init__(self) -> None:
        self._arrays: dict[_Key, weakref.ref[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def count(self, generation: int) -> int:
        """Return the number of leased slots of a generation."""
        return sum(key[0] == generation for key in self._arrays)

    def lease(self, generation: int, slot: int, memory: np.ndarray) -> np.ndarray:
        """Return an array of the memory of a slot; the lease ends with the array and all views of it."""
        # A view of an array keeps the first array of the chain. Made of the buffer of the memory, that is this one.
        array = np.frombuffer(memory.data, np.uint8)
        self._arrays[generation, slot] = weakref.ref(array)
        return array

    def pop_ended(self) -> list[_Key]:
        """Return generation and number of slots that are unused again, and forget their leases."""
        ended = [key for key, array in self._arrays.items() if array() is None]
        for key in ended:
            del self._arrays[key]
        return ended
