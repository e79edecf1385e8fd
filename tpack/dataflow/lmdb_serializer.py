"""Data points kept in an LMDB file, which can be read in any order."""

import os
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.lmdb_file import LmdbFile
from tpack.dataflow.storage import tensorpack_format
from tpack.dataflow.storage.lmdb import LMDBData, LMDBDataDecoder
from tpack.errors import InputError
from tpack.utils import logger, serialize
from tpack.utils.fs import written_aside
from tpack.utils.optional import import_optional
from tpack.utils.progress import get_tqdm

_DESCRIPTION_KEY = b"__tpack__"
_FORMAT = 1
_CHECKSUM_SIZE_BYTES = 4
_FIRST_MAP_SIZE_BYTES = 1 << 26
# What is kept in memory until it is written.
_MAX_CHUNK_SIZE_BYTES = 1 << 26


class LMDBSerializer:
    """Write a flow to an LMDB file, and read such a file as a flow.

    Each data point is stored under its number, as ``tpack.utils.serialize`` makes it, after a CRC-32 of key and data.
    Files that tensorpack wrote can be read, though not those with arrays of Python objects. Files that tpack wrote
    cannot be read by tensorpack.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str], write_frequency: int = 5000) -> None:
        """Write one pass over a flow; ``reset_state`` is called first.

        The file is written aside and takes its place when it is whole.

        Args:
            df: the flow.
            path: the file. If it is a directory, the file is ``data.mdb`` in it.
            write_frequency: how many data points are kept in memory until they are written together; less if they are
                large.

        Raises:
            ConfigError: ``write_frequency`` is less than 1.
            DataPointError: A data point cannot be serialized.
            DependencyError: The package ``lmdb`` is not installed.
        """
        lmdb = import_optional("lmdb", "lmdb")
        check_at_least(LMDBSerializer(), "write_frequency", write_frequency)
        path = os.path.join(path, "data.mdb") if os.path.isdir(path) else os.fspath(path)
        df.reset_state()
        with written_aside(path) as aside:
            env = lmdb.open(aside, subdir=False, lock=False, sync=False, map_size=_FIRST_MAP_SIZE_BYTES)
            try:
                count = _write_all(lmdb, env, df, write_frequency)
                env.sync(True)
            finally:
                env.close()
        logger.info("Wrote %d data points to %s", count, path)

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = True) -> DataFlow:
        """Return a flow of the data points in a file, of tpack's or of tensorpack's.

        Args:
            path: the file, or a directory with the file ``data.mdb``.
            shuffle: whether each pass has a new order.

        Raises:
            InputError: The file is missing, is no LMDB file, was cut off, or holds another number of data points than
                were written. Iterating raises it for a damaged data point, with its key.
            DependencyError: The package ``lmdb`` is not installed.
        """
        file = LmdbFile(path)
        description = file.find(_DESCRIPTION_KEY)
        if description is None:
            return LMDBDataDecoder(LMDBData(path, shuffle), partial(_decode_tensorpack, file.path))
        _check_description(file, description)
        data = LMDBData(path, shuffle, keys="{:08d}" if shuffle else None)
        return LMDBDataDecoder(data, partial(_decode, file.path))


def _write_all(lmdb: Any, env: Any, df: DataFlow, write_frequency: int) -> int:
    """Write the data points and then the description; return how many there were."""
    count = 0
    for chunk in _chunks(df, write_frequency):
        _write(lmdb, env, chunk)
        count += len(chunk)
    _write(lmdb, env, [(_DESCRIPTION_KEY, serialize.dumps({"format": _FORMAT, "size": count}))])
    return count


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


def _write(lmdb: Any, env: Any, chunk: list[tuple[bytes, bytes]]) -> None:
    """Write keys and values, and let the file grow until there is room for them."""
    while True:
        try:
            with env.begin(write=True) as transaction:
                for key, value in chunk:
                    transaction.put(key, value)
        except lmdb.MapFullError:
            env.set_mapsize(env.info()["map_size"] * 2)
        else:
            return


def _checksum(key: bytes, data: Any) -> bytes:
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_SIZE_BYTES, "little")


def _check_description(file: LmdbFile, stored: bytes) -> None:
    """Refuse a file that is of another format, or has not as many data points as it should."""
    description = serialize.loads(stored)
    if not isinstance(description, dict) or description.get("format") != _FORMAT:
        raise InputError(f"the LMDB file {file.path} says {description!r:.100} of itself: wanted format {_FORMAT}")
    if description.get("size") != len(file):
        raise InputError(
            f"the LMDB file {file.path} has {len(file)} data points and should have {description.get('size')}"
        )


def _decode(path: str, key: bytes, value: bytes) -> Any:
    """Return the data point in an entry that tpack wrote."""
    content = memoryview(value)
    checksum, data = content[:_CHECKSUM_SIZE_BYTES], content[_CHECKSUM_SIZE_BYTES:]
    if checksum != _checksum(key, data):
        raise InputError(f"the LMDB file {path} is damaged: the data point {key!r} has another checksum than it should")
    return serialize.loads(data)


def _decode_tensorpack(path: str, key: bytes, value: bytes) -> Any:
    """Return the data point in an entry that tensorpack wrote."""
    try:
        return tensorpack_format.loads(value)
    except InputError as error:
        raise InputError(f"the LMDB file {path}, which tpack did not write, has at {key!r}: {error}") from error
