"""LMDB files opened for reading: once in a process, and never beyond their end.

The library refuses to open a file twice in one process, and two flows may well read the same one. It maps the file into
memory, so that reading behind the end of one that was cut off would kill the process: the size is checked first.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tpack.errors import InputError
from tpack.utils.optional import import_optional

RESERVED_KEYS = (b"__keys__", b"__tpack__")


@dataclass
class _Opened:
    """An open environment and how many `LmdbFile` use it."""

    env: Any
    num_users: int = 0


# By device and inode. Reentrant, since the garbage collector may close one file while another is being opened.
_opened: dict[tuple[int, int], _Opened] = {}
_lock = threading.RLock()


class LmdbFile:
    """An LMDB file that is read. It is closed when nothing refers to it, or a pass over it, any more.

    Of damage inside the file the library notices what breaks its tree of pages, and hardly ever ends the process over
    it; it does not notice damage to values. `LMDBSerializer` therefore stores a checksum with each.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file.

        Args:
            path: the file, or a directory with the file ``data.mdb``.

        Raises:
            InputError: It is missing, is no LMDB file or was cut off.
            DependencyError: The package ``lmdb`` is not installed.
        """
        lmdb = import_optional("lmdb", "lmdb")
        path = os.fspath(path)
        self.path = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
        self._lmdb_error = lmdb.Error
        with self._errors("opening it"):
            status = os.stat(self.path)
            key = status.st_dev, status.st_ino
            with _lock:
                if key not in _opened:
                    _opened[key] = _Opened(_open(lmdb, self.path))
                _opened[key].num_users += 1
                self._env = _opened[key].env
                weakref.finalize(self, _release, key).atexit = False
        self._check_size()

    def __len__(self) -> int:
        """Return the number of entries, without those that describe the file."""
        with self._errors("counting its entries"):
            num_entries = self._env.stat()["entries"]
        return num_entries - sum(self.find(key) is not None for key in RESERVED_KEYS)

    def find(self, key: bytes) -> bytes | None:
        """Return what a key has; None if it is not there."""
        with self._errors(f"reading {key!r}"), self._env.begin() as transaction:
            return transaction.get(key)

    def get(self, key: bytes) -> bytes:
        """Return what a key has.

        Raises:
            InputError: It is not there, or cannot be read.
        """
        value = self.find(key)
        if value is None:
            raise InputError(f"the LMDB file {self.path} has no entry {key!r}")
        return value

    def keys(self) -> list[bytes]:
        """Return all keys in the order of the file, without those that describe it."""
        with self._errors("reading its keys"), self._env.begin() as transaction:
            found = list(transaction.cursor().iternext(keys=True, values=False))
        return [key for key in found if key not in RESERVED_KEYS]

    def items(self, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the file, without the first ``start`` and those that describe it."""
        last: bytes | None = None
        with self._env.begin() as transaction:
            entries = _entries(transaction, start)
            while True:
                with self._errors("reading its first entry" if last is None else f"reading what follows {last!r}"):
                    entry = next(entries, None)
                if entry is None:
                    return
                last = entry[0]
                yield entry

    def _check_size(self) -> None:
        """Refuse a file that does not hold all pages that it says it has."""
        with self._errors("reading its size"):
            wanted = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        found = os.path.getsize(self.path)
        if found < wanted:
            raise InputError(
                f"the LMDB file {self.path} was cut off: it has {found} bytes, and its pages end at byte {wanted}"
            )

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Name the file and the place in it in what the library raises."""
        try:
            yield
        except (self._lmdb_error, OSError) as error:
            raise InputError(f"the LMDB file {self.path} cannot be read ({doing}): {error}") from error


def _entries(transaction: Any, start: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values, without the first ``start`` and those that describe the file."""
    cursor = transaction.cursor()
    keys = (key for key in cursor.iternext(keys=True, values=False) if key not in RESERVED_KEYS)
    for key in islice(keys, start, None):
        yield key, cursor.value()


def _open(lmdb: Any, path: str) -> Any:
    """Open a file that nobody writes to."""
    return lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=True, max_readers=100)


def _release(key: tuple[int, int]) -> None:
    """Say that a file has one user less, and close it after the last."""
    with _lock:
        opened = _opened[key]
        opened.num_users -= 1
        if opened.num_users == 0:
            del _opened[key]
            opened.env.close()
