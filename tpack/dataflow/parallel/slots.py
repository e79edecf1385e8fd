"""The slots of a producer: pieces of shared memory of one size, each of which carries one message at a time.

A message that is larger than a slot begins a new generation of larger ones; the old ones go when nobody uses them.
When all slots are on their way and there may be more, there are more. When the memory file system is full, the number
that there is has to do; not even one is an error.
"""

import os
from collections.abc import Callable

import numpy as np

from tpack.dataflow.parallel.transport.slots import Block, create_block
from tpack.dataflow.parallel.transport.wire import CANCEL, MAX_SLOTS
from tpack.errors import InputError

MIN_SLOT_BYTES = 128 * 1024
# Enough that the consumer may keep two while a third is read and a fourth is written.
_FIRST_SLOTS = 4
_BUDGET_BYTES = 96 * 1024 * 1024
_PAGE_BYTES = 4096


class Slots:
    """The slots of one channel, as its producer sees them."""

    def __init__(self, announce: Callable[[int, int, int, int, bool], None], most: int) -> None:
        """Have no slot yet.

        Args:
            announce: tells the consumer of a block: a descriptor, the generation, the number of slots in it, their
                size, and whether they replace all others.
            most: how many slots to have at most, if they are small; a few more than messages shall wait.
        """
        self._announce = announce
        self._wanted = self._most = max(_FIRST_SLOTS, min(most, MAX_SLOTS))
        self._memories: list[np.ndarray] = []
        self._free: list[int] = []
        self.generation = 0
        self.slot_bytes = 0

    def take(self, size_bytes: int) -> int | None:
        """Return a free slot of at least some size, the one used last; None if there is none.

        Raises:
            InputError: There is not enough shared memory for even one slot.
        """
        if size_bytes > self.slot_bytes:
            self._begin_generation(size_bytes)
        elif not self._free and len(self._memories) < self._most:
            self._add_slots()
        return self._free.pop() if self._free else None

    @property
    def can_take(self) -> bool:
        """Whether there is a free slot, or might be a new one."""
        return bool(self._free) or len(self._memories) < self._most or not self._memories

    def memory(self, slot: int) -> np.ndarray:
        """Return the memory of a slot as an array of bytes."""
        return self._memories[slot]

    def give_back(self, generation: int, slot: int) -> None:
        """Take note that a slot is free; one of an old generation is not used again."""
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
        """Make more slots of the same size, if there is memory for them."""
        wanted = min(len(self._memories), self._most - len(self._memories))
        try:
            block, descriptor, count = _create(self.slot_bytes, wanted)
        except InputError:
            self._most = len(self._memories)
            return
        self._append(block, descriptor, count, False)

    def _append(self, block: Block, descriptor: int, count: int, is_new: bool) -> None:
        first = len(self._memories)
        self._memories += split(block, count)
        self._free += range(first + count - 1, first - 1, -1)
        try:
            self._announce(descriptor, self.generation, count, self.slot_bytes, is_new)
        finally:
            os.close(descriptor)


def split(block: Block, count: int) -> list[np.ndarray]:
    """Return the slots that a block consists of."""
    return list(block.memory.reshape(count, -1))


def _create(slot_bytes: int, count: int) -> tuple[Block, int, int]:
    """Make a block for as many slots as there is memory for, but not for more than ``count``."""
    while count > 1:
        try:
            return *create_block(slot_bytes * count), count
        except InputError:
            count //= 2
    return *create_block(slot_bytes), 1


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
