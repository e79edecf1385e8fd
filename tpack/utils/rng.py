"""Random generators for data flows: distinct for each object and process, and repeatable with a fixed seed.

Call ``get_rng(self)`` in ``reset_state``, in the process that uses it. The state comes from the operating system, or
from a fixed seed, the process's name, the object's type and the number of earlier generators of that type. (In
tensorpack a fixed seed gave every object in every worker the same numbers.)
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
from tpack.utils.validation import check_arguments, mismatch

__all__ = ["fix_rng_seed", "get_rng"]


class _FixedSeed:
    """The process's fixed seed, and the number of generators of each type since."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.given: Counter[str] = Counter()
        self.lock = threading.Lock()


_fixed = _FixedSeed()
# The seed of this thread's block, and the number of generators of each type in it.
_shared: ContextVar[tuple[int, Counter[str]] | None] = ContextVar("shared seed", default=None)


@check_arguments
def fix_rng_seed(seed: int | None) -> None:
    """Make later generators the same in every run of the program.

    Call it first in a script. Forked processes inherit it, spawned ones do not.

    Args:
        seed: an integer of at least 0; None undoes it.

    Raises:
        ConfigError: The seed is something else.
    """
    if seed is not None and seed < 0:
        raise ConfigError(mismatch("fix_rng_seed", "seed", seed, "an integer of at least 0, or None"))
    with _fixed.lock:
        _fixed.value = None if seed is None else int(seed)
        _fixed.given.clear()


def get_rng(obj: object = None) -> "np.random.RandomState":
    """Make a new random generator.

    Args:
        obj: the object that will use it; its type separates it from others.
    """
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(_entropy(type(obj).__qualname__))))


@contextmanager
def same_in_all_processes(seed: int) -> Iterator[None]:
    """Make this thread's generators in a block depend on this seed alone, the same in all processes in one order.

    Args:
        seed: an integer of at least 0.
    """
    token = _shared.set((seed, Counter()))
    try:
        yield
    finally:
        _shared.reset(token)


def _entropy(kind: str) -> list[int] | None:
    """Return the entropy of a type's next generator; None for the operating system's."""
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
