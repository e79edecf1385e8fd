"""Random numbers for data flows: different in each object and process, and the same again once a seed is fixed.

A generator is asked for with ``get_rng(self)`` in ``reset_state``, in the process that uses it. Without a fixed seed
its state comes from the operating system. With one it comes from the seed, the name of the process, the type of the
object and how many of that type came before, so that a run repeats. (In tensorpack a fixed seed gave every object in
every worker the same numbers: all workers then yield the same data.)
"""

import multiprocessing
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments

__all__ = ["fix_rng_seed", "get_rng"]


class _FixedSeed:
    """The seed of the process, if one is fixed, and how many generators each type got since."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.given: Counter[str] = Counter()
        self.lock = threading.Lock()


_fixed = _FixedSeed()
# The seed of the block that this thread is in, and how many generators each type got there.
_shared: ContextVar[tuple[int, Counter[str]] | None] = ContextVar("shared seed", default=None)


@check_arguments
def fix_rng_seed(seed: int | None) -> None:
    """Make the generators given out from now on the same in every run of the program.

    Call it first in a script. It is inherited by processes that are forked, not by those that are spawned.

    Args:
        seed: an integer of at least 0; None takes the effect back.

    Raises:
        ConfigError: The seed is something else.
    """
    if seed is not None and seed < 0:
        raise ConfigError(f"the seed is {seed!r}: expected an integer of at least 0, or None")
    with _fixed.lock:
        _fixed.value = None if seed is None else int(seed)
        _fixed.given.clear()


def get_rng(obj: object = None) -> np.random.RandomState:
    """Make a generator of random numbers, which nobody else uses.

    Args:
        obj: the object that will use it; its type keeps the generators of unlike objects apart.
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(_entropy(type(obj).__qualname__))))


@contextmanager
def same_in_all_processes(seed: int) -> Iterator[None]:
    """Make the generators given out inside of a block the same in every process that gives them out in one order.

    They come of this seed alone, and neither of the name of the process nor of a seed that is fixed. It holds for the
    thread that is in the block.

    Args:
        seed: an integer of at least 0.
    """
    token = _shared.set((seed, Counter()))
    try:
        yield
    finally:
        _shared.reset(token)


def _entropy(kind: str) -> list[int] | None:
    """Return what to seed the next generator for a type with; None means from the operating system."""
    shared = _shared.get()
    if shared is not None:
        seed, given = shared
        given[kind] += 1
        return [seed, zlib.crc32(kind.encode()), given[kind]]
    with _fixed.lock:
        if _fixed.value is None:
            return None
        index = _fixed.given[kind]
        _fixed.given[kind] += 1
        process = multiprocessing.current_process().name
        return [_fixed.value, zlib.crc32(process.encode()), zlib.crc32(kind.encode()), index]
