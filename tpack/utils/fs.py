"""Files and directories: made when missing, and written so that a reader never sees half a file."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tpack.errors import ConfigError

__all__ = ["atomic_write", "get_dataset_path", "mkdir_p"]


def mkdir_p(dirname: str | os.PathLike[str]) -> None:
    """Make a directory and its parents; do nothing if it is there. The empty name is the working directory."""
    if os.fspath(dirname):
        os.makedirs(dirname, exist_ok=True)


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


def get_dataset_path(*parts: str) -> str:
    """Return a path below the directory where data sets are kept: ``$TPACK_DATASET``, or ``~/tpack_data``.

    Nothing is made; the environment variable is read on each call.
    """
    root = os.environ.get("TPACK_DATASET") or os.path.join(os.path.expanduser("~"), "tpack_data")
    return os.path.join(os.path.abspath(root), *parts)


def _sync_directory(directory: str) -> None:
    """Bring a rename to the disk; systems that cannot open a directory do it on their own."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
