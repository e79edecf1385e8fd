"""Shared memory without a name: nothing can be left behind by it, whoever is killed and when.

A block is a file in the memory file system that has been given no name, or lost it before anything was written. The
other process gets it as a descriptor over a socket. The kernel frees it with the last mapping, so that neither an
orderly exit nor a resource tracker is needed, and there is no moment in which SIGKILL leaves something in /dev/shm, as
there is with ``multiprocessing.shared_memory``, whose blocks have names.
"""

import contextlib
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from tpack.errors import InputError

# Where shared memory lives on Linux. Elsewhere blocks are unnamed files in the directory for temporary files.
SHARED_MEMORY = Path("/dev/shm")


class Block:
    """A piece of shared memory, mapped into this process for as long as an array uses it."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        """Map a block.

        Args:
            descriptor: the open file; it may be closed afterwards.
            size_bytes: its size.
        """
        self.size_bytes = size_bytes
        # The array keeps the mapping, and each array made of it keeps the mapping too.
        self.memory: np.ndarray = np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)


def create_block(size_bytes: int) -> tuple[Block, int]:
    """Make a block, all of whose memory is there: writing to it cannot fail later on.

    Args:
        size_bytes: its size.

    Returns:
        The block, and a descriptor of it, to be sent to another process and closed.

    Raises:
        InputError: There is not that much memory.
    """
    directory = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    with tempfile.TemporaryFile(dir=directory) as file:
        try:
            _allocate(file.fileno(), size_bytes)
            block = Block(file.fileno(), size_bytes)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"{size_bytes:,} bytes of shared memory were wanted for data points, and {directory} has "
                f"{_free_bytes(directory)} left ({error}): give it more, as with `docker run --shm-size`, "
                "or let fewer or smaller data points wait"
            ) from error
        return block, os.dup(file.fileno())


def _allocate(descriptor: int, size_bytes: int) -> None:
    """Get the memory now. Otherwise a full file system shows when a page is first written, by a fatal SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)
    else:
        os.ftruncate(descriptor, size_bytes)


def _free_bytes(directory: Path) -> str:
    """Return the bytes that a file system has left, for a message."""
    with contextlib.suppress(OSError):
        status = os.statvfs(directory)
        return f"{status.f_bavail * status.f_frsize:,}"
    return "an unknown number"
