"""Data points in an LMDB file, read in any order.

The library refuses to open a file twice in one process, so flows of one file share it. It maps the file into memory and
trusts it, so that a damaged one would kill the process: its pages are checked first (``lmdb_pages``).
"""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import IndexedDataFlow
from tpack.dataflow.storage.lmdb_pages import check_pages
from tpack.errors import ConfigError, InputError
from tpack.utils import logger, serialize
from tpack.utils.formats import tensorpack_points
from tpack.utils.fs import atomic_path
from tpack.utils.lazy import import_optional
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_count, check_local_path

if TYPE_CHECKING:
    import lmdb

# The entries with the keys of tensorpack's files, and with the description of tpack's.
_KEYS_KEY = b"__keys__"
_DESCRIPTION_KEY = b"__tpack__"
_FORMAT = 1
_CHECKSUM_SIZE_BYTES = 4
_FIRST_MAP_SIZE_BYTES = 1 << 26
# The size of the data kept in memory until it is written.
_MAX_CHUNK_SIZE_BYTES = 1 << 26


@check_arguments
class LMDBData(IndexedDataFlow):
    """Yield the entries of an LMDB file as lists ``[key, value]`` of bytes.

    In a random order each entry is looked up by its key, which is slow on a rotating disk. The entries ``__keys__`` and
    ``__tpack__``, which describe the file, are left out.

    Args:
        lmdb_path: the file, or a directory with the file ``data.mdb``.
        keys: with ``shuffle``, the keys of the entries to yield: a list, or a format for numbers from 0 on, such as
            ``"{:0>8d}"``. By default those in tensorpack's entry ``__keys__``, or without it all, found by reading
            through the file once.

    Raises:
        ConfigError: Keys were given without ``shuffle``, or in another form.
        InputError: The file is missing, is not an LMDB file, or was cut off.
        DependencyError: The package ``lmdb`` is not installed.
    """

    def __init__(
        self, lmdb_path: str | os.PathLike[str], shuffle: bool = True, keys: str | Sequence[str | bytes] | None = None
    ) -> None:
        super().__init__(shuffle)
        if keys is not None and not shuffle:
            raise ConfigError("LMDBData got keys and shuffle=False: expected shuffle=True, or no keys")
        self._path = check_local_path(self, "lmdb_path", lmdb_path)
        file = _LmdbFile(self._path)
        self._size = len(file)
        self.keys = _find_keys(file, keys) if shuffle else None
        if self.keys is not None:
            self._size = len(self.keys)
        self._file: _LmdbFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Open the file in this process, get a new generator and forget the position."""
        super().reset_state()
        self._file = _LmdbFile(self._path)

    def _points(self, start: int) -> Iterator[list[bytes]]:
        if self.shuffle:
            yield from super()._points(start)
        else:
            for key, value in self._opened().items(start):
                yield [key, value]

    def _read(self, index: int) -> list[bytes]:
        key = (self.keys or [])[index]
        return [key, self._opened().get(key)]

    def _opened(self) -> _LmdbFile:
        if self._file is None:
            raise InputError("LMDBData has no open file: call reset_state() once before iterating it")
        return self._file


@check_arguments
class LMDBDataDecoder(MapData):
    """Yield the results of a function for the keys and values of an LMDB file; None drops the entry.

    The pairs are those of an `LMDBData` or another flow. A decoder that cannot be called raises a ConfigError.
    """

    def __init__(self, lmdb_data: DataFlow, decoder: Callable[[bytes, bytes], Any]) -> None:
        super().__init__(lmdb_data, partial(_decode_pair, decoder))


class LMDBSerializer:
    """Write a flow to an LMDB file, and read such a file as a flow.

    Each data point is stored under its number, as ``tpack.utils.serialize`` makes it, after a CRC-32 of key and data.
    Tensorpack's files can be read, but for arrays of Python objects; tensorpack cannot read tpack's.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str], write_frequency: int = 5000) -> None:
        """Write one pass over a flow, after its ``reset_state``. The file takes its place when it is complete.

        It is ``data.mdb`` in a directory. Up to ``write_frequency`` points are written together; less than 1 is
        refused.

        Raises:
            DataPointError: A data point cannot be serialized.
            DependencyError: The package ``lmdb`` is not installed.
        """
        library = import_optional("lmdb", "lmdb")
        check_count(LMDBSerializer(), "write_frequency", write_frequency)
        path = check_local_path(LMDBSerializer(), "path", path)
        path = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
        df.reset_state()
        with atomic_path(path) as temporary:
            env = library.open(temporary, subdir=False, lock=False, sync=False, map_size=_FIRST_MAP_SIZE_BYTES)
            try:
                count = 0
                for chunk in _chunks(df, write_frequency):
                    _write(library, env, chunk)
                    count += len(chunk)
                _write(library, env, [(_DESCRIPTION_KEY, serialize.dumps({"format": _FORMAT, "size": count}))])
                env.sync(True)
            finally:
                env.close()
        logger.info("Wrote %d data points to %s", count, path)

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = True) -> DataFlow:
        """Return a flow of the data points in a file of tpack or of tensorpack, or in ``data.mdb`` of a directory.

        Raises:
            InputError: The file is missing, is not an LMDB file, was cut off, or has lost data points. Iterating raises
                it for a damaged data point, with its key.
            DependencyError: The package ``lmdb`` is not installed.
        """
        path = check_local_path(LMDBSerializer(), "path", path)
        file = _LmdbFile(path)
        description = file.find(_DESCRIPTION_KEY)
        if description is None:
            return LMDBDataDecoder(LMDBData(path, shuffle), partial(_decode_tensorpack, file.path))
        _check_description(file, description)
        data = LMDBData(path, shuffle, keys="{:08d}" if shuffle else None)
        return LMDBDataDecoder(data, partial(_decode, file.path))


def _find_keys(file: _LmdbFile, keys: str | Sequence[str | bytes] | None) -> list[bytes]:
    """Return the keys of the entries to yield."""
    if isinstance(keys, str):
        return [keys.format(index).encode() for index in range(len(file))]
    if keys is None:
        stored = file.find(_KEYS_KEY)
        keys = file.keys() if stored is None else tensorpack_points.loads(stored)
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (str, bytes)) for key in keys):
        raise ConfigError(f"LMDBData got keys={keys!r:.100}: expected a list of keys, or a format with one number")
    return [key.encode() if isinstance(key, str) else key for key in keys]


def _decode_pair(decoder: Callable[[bytes, bytes], Any], pair: Sequence[bytes]) -> object:
    return decoder(pair[0], pair[1])


def _chunks(df: DataFlow, write_frequency: int) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield keys and values in lists that are neither too long nor too large."""
    chunk: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    for index, point in enumerate(get_tqdm(df)):
        key, data = b"%08d" % index, serialize.dumps(point)
        chunk.append((key, _checksum(key, data) + data))
        size_bytes += len(data)
        if len(chunk) == write_frequency or size_bytes > _MAX_CHUNK_SIZE_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    yield chunk


def _write(library: ModuleType, env: lmdb.Environment, chunk: list[tuple[bytes, bytes]]) -> None:
    """Write keys and values, and let the file grow until there is room."""
    while True:
        try:
            with env.begin(write=True) as transaction:
                for key, value in chunk:
                    transaction.put(key, value)
        except library.MapFullError:
            env.set_mapsize(env.info()["map_size"] * 2)
        else:
            return


def _checksum(key: bytes, data: bytes | memoryview) -> bytes:
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_SIZE_BYTES, "little")


def _check_description(file: _LmdbFile, stored: bytes) -> None:
    """Refuse a file of another format, or with another number of data points than were written."""
    description = serialize.loads(stored)
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise InputError(f"{file.path} has the description {description!r:.100}: expected format {_FORMAT}")
    if (size := description.get("size")) != len(file):
        raise InputError(f"the LMDB file {file.path} has {len(file)} data points: expected {size}")


def _decode(path: str, key: bytes, value: bytes) -> object:
    """Return the data point in an entry of tpack."""
    content = memoryview(value)
    checksum, data = content[:_CHECKSUM_SIZE_BYTES], content[_CHECKSUM_SIZE_BYTES:]
    if checksum != _checksum(key, data):
        raise InputError(f"the LMDB file {path} is damaged: the checksum of the data point {key!r} is wrong")
    return serialize.loads(data)


def _decode_tensorpack(path: str, key: bytes, value: bytes) -> object:
    """Return the data point in an entry of tensorpack."""
    try:
        return tensorpack_points.loads(value)
    except InputError as error:
        raise InputError(f"the LMDB file {path}, not of tpack, has an unreadable entry {key!r}: {error}") from error


class _LmdbFile:
    """An LMDB file for reading. It is closed when nothing refers to it, or to a pass over it, any more.

    Damage to its tree of pages is noticed, damage to values is not; `LMDBSerializer` therefore stores checksums.

    Raises:
        InputError: It is missing, is not an LMDB file or was cut off.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        library = import_optional("lmdb", "lmdb")
        path = os.fspath(path)
        self.path = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
        self._library_error = library.Error
        with self._errors("opening it"):
            check_pages(self.path)
            status = os.stat(self.path)
            key = status.st_dev, status.st_ino
            with _lock:
                if key not in _opened:
                    options = {"readonly": True, "lock": False, "readahead": True, "max_readers": 100}
                    _opened[key] = _Opened(library.open(self.path, subdir=False, **options))
                _opened[key].num_users += 1
                self._env = _opened[key].env
                weakref.finalize(self, _release, key).atexit = False

    def __len__(self) -> int:
        """Return the number of entries, without those that describe the file."""
        with self._errors("counting its entries"):
            num_entries = self._env.stat()["entries"]
        return num_entries - sum(self.find(key) is not None for key in (_KEYS_KEY, _DESCRIPTION_KEY))

    def find(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none."""
        with self._errors(f"reading {key!r}"), self._env.begin() as transaction:
            return transaction.get(key)

    def get(self, key: bytes) -> bytes:
        """Return the value of a key; raise an InputError if there is none."""
        value = self.find(key)
        if value is None:
            raise InputError(f"the LMDB file {self.path} has no entry {key!r}")
        return value

    def keys(self) -> list[bytes]:
        """Return all keys in the order of the file, without those that describe it."""
        with self._errors("reading its keys"), self._env.begin() as transaction:
            found = list(transaction.cursor().iternext(keys=True, values=False))
        return [key for key in found if key not in (_KEYS_KEY, _DESCRIPTION_KEY)]

    def items(self, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the file, without the first ``start`` and those that describe it."""
        last: bytes | None = None
        with self._env.begin() as transaction:
            entries = _entries(transaction, start)
            while True:
                with self._errors("reading its first entry" if last is None else f"reading the entry after {last!r}"):
                    entry = next(entries, None)
                if entry is None:
                    return
                if last is not None and entry[0] <= last:
                    raise InputError(f"the LMDB file {self.path} is damaged: {entry[0]!r} follows {last!r}")
                last = entry[0]
                yield entry

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Name the file and the place in it in exceptions of the library."""
        try:
            yield
        except (self._library_error, OSError) as error:
            raise InputError(f"the LMDB file {self.path} cannot be read ({doing}): {error}") from error


def _entries(transaction: lmdb.Transaction, start: int) -> Iterator[tuple[bytes, bytes]]:
    cursor = transaction.cursor()
    keys = (key for key in cursor.iternext(keys=True, values=False) if key not in (_KEYS_KEY, _DESCRIPTION_KEY))
    for key in islice(keys, start, None):
        # Bytes, without buffers=True.
        yield key, cursor.value()  # type: ignore[misc]


@dataclass
class _Opened:
    """An open environment and the number of its `_LmdbFile`."""

    env: lmdb.Environment
    num_users: int = 0


# By device and inode. The lock is reentrant: the garbage collector may close one file while another is opened.
_opened: dict[tuple[int, int], _Opened] = {}
_lock = threading.RLock()


def _release(key: tuple[int, int]) -> None:
    """Count one user of a file less, and close it after the last."""
    with _lock:
        opened = _opened[key]
        opened.num_users -= 1
        if opened.num_users == 0:
            del _opened[key]
            opened.env.close()
