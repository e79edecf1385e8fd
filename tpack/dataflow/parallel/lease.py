"""Shared memory that is lent out as arrays and comes back when nobody uses it any more.

The consumer of a slot gets arrays that are the slot itself, not copies. When the last of them is gone, and every view
made of them and everything that holds one (a feed of TensorFlow, too), the slot is given back to its producer, which
overwrites it. Nothing that is still in use is ever overwritten.
"""

import os
from collections.abc import Callable

import numpy as np


class _Lease:
    """What the arrays of one slot have as their base: the end of its life is the end of theirs."""

    def __init__(self, memory: np.ndarray, give_back: Callable[[], None]) -> None:
        # By this numpy makes an array of the memory, and keeps this object alive with it.
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory
        self._give_back = give_back
        self._owner_pid = os.getpid()

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        # In a fork of the consumer arrays end too, while the consumer goes on using its own.
        if getpid() == self._owner_pid:
            self._give_back()


def lend(memory: np.ndarray, give_back: Callable[[], None]) -> np.ndarray:
    """Return an array of some memory.

    Args:
        memory: the memory, as an array of bytes.
        give_back: called once, in any thread, when the array and all views of it are gone. It must not wait.

    Returns:
        An array of bytes, which can be written to as the memory can.
    """
    return np.asarray(_Lease(memory, give_back))
