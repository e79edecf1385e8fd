"""Shared memory that is lent out as arrays and is free again when nobody uses it any more.

The consumer of a slot gets arrays that are the slot itself, not copies. When the last of them is gone, and every view
made of them and everything that holds one (a feed of TensorFlow, too), the slot can go back to its producer, which
overwrites it. Nothing that is still in use is ever overwritten.

It is looked up and not told: a function that is called when an array ends would run in any thread and at any moment,
and would swallow a Ctrl-C that comes then.
"""

import weakref

import numpy as np

Key = tuple[int, int]


class LentSlots:
    """The slots that are lent out."""

    def __init__(self) -> None:
        """Have lent nothing."""
        self._arrays: dict[Key, weakref.ref[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def count(self, generation: int) -> int:
        """Return how many slots of a generation are lent."""
        return sum(key[0] == generation for key in self._arrays)

    def lend(self, generation: int, slot: int, memory: np.ndarray) -> np.ndarray:
        """Return an array of the memory of a slot, which is lent until the array and all views of it are gone.

        Args:
            generation: the generation of the slot.
            slot: its number.
            memory: its memory, as an array of bytes.
        """
        # A view of an array keeps the array at the beginning of the chain, as far as there are arrays. Made of the
        # buffer of the memory, that is this one.
        array = np.frombuffer(memory.data, np.uint8)
        self._arrays[generation, slot] = weakref.ref(array)
        return array

    def pop_unused(self) -> list[Key]:
        """Return the generations and numbers of slots that nobody uses any more; they are not lent from now on."""
        unused = [key for key, array in self._arrays.items() if array() is None]
        for key in unused:
            del self._arrays[key]
        return unused
