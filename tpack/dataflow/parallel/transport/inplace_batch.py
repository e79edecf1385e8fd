"""Data points that are made where they will be read: their arrays lie in the slot that they are sent in, uncopied.

Making one may take long, as gathering a batch does. Meanwhile other messages may be sent; and when it cannot be made,
the slot is free again.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from tpack.dataflow.parallel.transport.codec import Encoded, aligned
from tpack.dataflow.parallel.transport.sender import OpenSlot, Sender

_Shape: TypeAlias = int | Sequence[int]

_REST_BYTES = 4096
"""What is kept free behind the arrays, for what is pickled."""


class BuiltPoint:
    """One data point at a time that is made and sent, or given up.

    Args:
        sender: what sends it.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # There is a slot from the first array on.
        self._opened: OpenSlot | None = None
        self._arena = _Arena(np.empty(0, np.uint8))

    def empty(self, shape: _Shape, dtype: DTypeLike) -> np.ndarray:
        """Return an array as ``np.empty`` does, in shared memory if there is room; the first one waits for a slot.

        Nothing may change the array after ``send`` or ``give_up``.

        Raises:
            PeerGoneError: The other process is gone.
            CancelledError: The consumer does not want the rest of the pass.
            InputError: There is not enough shared memory.
        """
        if self._opened is None and not np.dtype(dtype).hasobject:
            self._opened = self._sender.open_slot(_size_bytes(shape, dtype) + _REST_BYTES)
            self._arena = _Arena(self._opened.memory)
        return self._arena.empty(shape, dtype)

    def send(self, point: object) -> None:
        """Send the data point, whose arrays may be those that ``empty`` has made, or parts of them, or others.

        Args:
            point: the point; the next one begins.

        Raises:
            DataPointError: It cannot be pickled. The slot is free again, as with the exceptions of ``empty``.
        """
        try:
            encoded = Encoded(point)
        except BaseException:
            self.give_up()
            raise
        opened, arena = self._opened, self._arena
        self._opened = None
        encoded.lay_out(arena.start_of, arena.end)
        # Where an array had no room, the next point shall have it.
        self._sender.put_encoded(encoded, opened, _REST_BYTES if arena.is_short else 0)

    def give_up(self) -> None:
        """Drop what was made; the next point begins."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._sender.give_up(opened)


class _Arena:
    """Free memory of a slot, which arrays are made in.

    Args:
        memory: the slot as an array of bytes.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        # From here on the memory is free.
        self.end = 0
        # Whether there was no room for an array.
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
        """Return where an array lies in the slot, or None if it does not."""
        start = _address(array) - _address(self._memory)
        is_inside = start >= 0 and start + array.nbytes <= self.end
        return start if is_inside and array.flags.c_contiguous else None


def _size_bytes(shape: _Shape, dtype: DTypeLike) -> int:
    """Return the number of bytes of an array."""
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
