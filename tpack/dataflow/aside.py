"""Files written by libraries that want a path: made beside their place and renamed when they are whole."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def written_aside(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give a path beside ``path``; what is there when the block ends takes the place of ``path``, all at once.

    If the block raises, what it wrote is removed and ``path`` is what it was before. What is written must be closed in
    the block. For files that Python itself writes there is ``tpack.utils.fs.atomic_write``.

    Args:
        path: the file; its directory must exist.

    Returns:
        A context manager whose value is the other path, in the same directory.
    """
    directory, name = os.path.split(os.path.abspath(os.fspath(path)))
    aside = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        yield aside
        _bring_to_disk(aside)
        os.replace(aside, path)
        _bring_to_disk(directory)
    finally:
        if os.path.exists(aside):
            os.unlink(aside)


def _bring_to_disk(path: str) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
