"""Files that are written so that a reader never sees half of one."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tpack.errors import ConfigError


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that takes the place of ``path`` when the ``with`` block ends, all at once.

    The content goes to a file beside it, is brought to the disk and then renamed. If the block raises, or the process
    is killed at any instant, ``path`` is what it was before.

    Args:
        path: the file; its directory must exist.
        mode: ``"w"`` for text in UTF-8, ``"wb"`` for bytes.

    Returns:
        A context manager whose value is the open file.

    Raises:
        ConfigError: The mode is another one.
    """
    if mode not in ("w", "wb"):
        raise ConfigError(f"atomic_write got mode={mode!r}: wanted 'w' or 'wb', since the file is written as a whole")
    path = os.path.abspath(os.fspath(path))
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(aside, mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, aside)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise
    _sync_directory(directory)


def _sync_directory(directory: str) -> None:
    """Bring a rename to the disk; systems that cannot open a directory do it on their own."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
