"""Data points in TFRecord files, written and read without TensorFlow.

A record is its length in 8 bytes, a checksum of these, the data, and a checksum of the data; numbers are little-endian,
and checksums are masked (see `tpack.utils.formats.crc32c`). A file does not hold the number of its records.
"""

import functools
import importlib
import io
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import IO, Any

import numpy as np

from tpack.dataflow.base import DataFlow, close_flow
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.sources import IndexedDataFlow
from tpack.dataflow.storage.shards import Paths, names_in_range, shard_names, written_shards
from tpack.errors import InputError
from tpack.utils import logger, serialize
from tpack.utils.formats.crc32c import masked_crc32c
from tpack.utils.fs import atomic_write
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_count

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_INDEX = ".index"
# The number of files that a thread keeps open, and of records for each thread that are read ahead.
_MOST_OPEN = 64
_NUM_AHEAD = 4


@check_arguments
class TFRecordData(IndexedDataFlow):
    """Yield the records of TFRecord files as bytes, after checking their checksums.

    The records are located at construction: in the index beside a file, ``<file>.index``, if there is one, else by
    reading the header of each. So a shuffle is one of all records, and a worker's `ShardData` reads only its own.
    Workers read files of their own by ``FlatMapData(shard_files(files), lambda name: TFRecordData(name[0]))``.

    Args:
        path: the file, not compressed; a name with a range of numbers, such as ``train-{0000..0009}.tfrecord``; a
            pattern with ``*``; or several of them in a list.
        num_thread: the number of threads that read; with more than one they read ahead, in the same order. Below a
            `ShardData`, which asks for single records, there is one.

    Raises:
        ConfigError: Nothing fits a pattern, or a number is less than 1.
        InputError: A file is missing, was cut off, or has a damaged header; or an index does not fit its file.
    """

    _is_read_at_will = True

    def __init__(self, path: Paths, shuffle: bool = False, *, num_thread: int = 1) -> None:
        super().__init__(shuffle)
        self.paths = shard_names(self, path)
        self.num_thread = check_count(self, "num_thread", num_thread)
        places = [_find_records(name) for name in self.paths]
        self._offsets = np.concatenate(places)
        # The number of the first record after each file.
        self._ends = np.cumsum([len(offsets) for offsets in places])

    def __len__(self) -> int:
        return len(self._offsets)

    def _points(self, start: int) -> Iterator[Any]:
        # Each pass opens the files, so that passes do not disturb each other.
        order = self._draw_order()[start:].tolist()
        with closing(_OpenFiles()) as files:
            read = functools.partial(self._read_from, files)
            yield from map(read, order) if self.num_thread == 1 else _read_ahead(read, order, self.num_thread)

    def _read(self, index: int) -> object:
        with closing(_OpenFiles()) as files:
            return self._read_from(files, index)

    def _read_from(self, files: "_OpenFiles", index: int) -> object:
        number, path, offset = self._place(index)
        return self._decode(_read_record(files.get(path), offset, number), index)

    def _place(self, index: int) -> tuple[int, str, int]:
        """Return the number of a record in its file, the file, and the record's offset in it."""
        file = int(np.searchsorted(self._ends, index, side="right"))
        first = int(self._ends[file - 1]) if file else 0
        return index - first, self.paths[file], int(self._offsets[index])

    def _decode(self, data: bytes, index: int) -> object:
        """Return the data point in a record; here the record itself."""
        return data


class TFRecordSerializer:
    """Write a flow to TFRecord files, and read such files as a flow.

    Each record holds one data point, as ``tpack.utils.serialize`` makes it, and not a ``tf.train.Example``.
    Tensorpack's files can be read too, but for arrays of Python objects.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str], *, num_proc: int | None = None) -> None:
        """Write one pass over a flow, after its ``reset_state``. Files take their places when all are complete.

        Args:
            df: the flow.
            path: the file; or a name with a range of numbers, such as ``train-{0000..0009}.tfrecord``, for several
                files with an index each, to which points are dealt out in turn.
            num_proc: the number of processes that make records of points; None does it in this one.

        Raises:
            ConfigError: The path or the number is invalid.
            DataPointError: A data point cannot be serialized.
        """
        records: DataFlow = MapData(df, _as_record)
        if num_proc is not None:
            records = MultiProcessMapData(df, num_proc, _as_record, strict=True)
        names = names_in_range(TFRecordSerializer, os.fspath(path))
        # An index of former files does not fit these.
        for name in names:
            with suppress(FileNotFoundError):
                os.remove(name + _INDEX)
        records.reset_state()
        try:
            lines = _write_records(records, path)
        finally:
            close_flow(records)
        for name, written in zip(names, lines, strict=True) if len(names) > 1 else ():
            with atomic_write(name + _INDEX) as index:
                index.writelines(f"{offset} {size}\n" for offset, size in written)
        logger.info("Wrote %d data points to %s", sum(map(len, lines)), os.fspath(path))

    @staticmethod
    def load(path: Paths, size: int | None = None, shuffle: bool = False, *, num_thread: int = 1) -> DataFlow:
        """Return a flow of the data points in files.

        Args:
            path: a file or several, as `TFRecordData` takes them.
            size: the expected number of data points, if it is to be checked. (In tensorpack it must be given.)
            shuffle: whether each pass has a new order. (In tensorpack there is no choice.)
            num_thread: the number of threads that read.

        Raises:
            ConfigError: Nothing fits a pattern, or a number is less than 1.
            InputError: A file is missing, was cut off or is damaged, or the number of data points differs. Iterating
                raises it for a damaged data point, with its place.
        """
        flow = _TFRecordPoints(path, shuffle, num_thread=num_thread)
        if size is not None and size != len(flow):
            raise InputError(f"the TFRecord file {', '.join(flow.paths)} has {len(flow)} records: expected {size}")
        return flow


class _TFRecordPoints(TFRecordData):
    def _decode(self, data: bytes, index: int) -> object:
        try:
            return serialize.loads(data)
        except InputError as error:
            number, path, offset = self._place(index)
            raise InputError(f"{_where(path, offset, number)} does not hold a data point: {error}") from error


class _OpenFiles:
    """Files for reading, opened on first use; each thread has its own."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[IO[bytes]] = []

    def get(self, path: str) -> IO[bytes]:
        """Return an open file."""
        files: dict[str, IO[bytes]] = self._own.__dict__.setdefault("files", {})
        if path not in files:
            if len(files) >= _MOST_OPEN:
                files.pop(next(iter(files))).close()
            files[path] = open(path, "rb")  # noqa: SIM115 (closed with the others, or to make room)
            self._all.append(files[path])
        return files[path]

    def close(self) -> None:
        """Close the files of all threads."""
        for file in self._all:
            file.close()


def _read_ahead(read: Callable[[int], object], indices: Sequence[int], num_thread: int) -> Iterator[object]:
    """Yield the results of reading records in order, by several threads."""
    waiting: deque[Any] = deque()
    with importlib.import_module("concurrent.futures").ThreadPoolExecutor(num_thread, "tfrecord") as pool:
        try:
            for index in indices:
                waiting.append(pool.submit(read, index))
                if len(waiting) > _NUM_AHEAD * num_thread:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _as_record(point: object) -> list[np.ndarray]:
    """Return a data point as a record; as an array, which goes between processes without a copy."""
    file = io.BytesIO()
    _write_record(file, serialize.dumps(point))
    return [np.frombuffer(file.getbuffer(), np.uint8)]


def _write_records(records: DataFlow, path: str | os.PathLike[str]) -> list[list[tuple[int, int]]]:
    """Write records to files in turn; return the offset and size of each record of each file."""
    with written_shards(TFRecordSerializer, path) as files:
        lines: list[list[tuple[int, int]]] = [[] for _ in files]
        for number, (record,) in enumerate(get_tqdm(records)):
            turn = number % len(files)
            lines[turn].append((files[turn].tell(), len(record)))
            files[turn].write(record.data)
    return lines


def _write_record(file: IO[bytes], data: bytes) -> None:
    length = _LENGTH.pack(len(data))
    file.write(length + _CHECKSUM.pack(masked_crc32c(length)))
    file.write(data)
    file.write(_CHECKSUM.pack(masked_crc32c(data)))


def _read_record(file: IO[bytes], offset: int, index: int) -> bytes:
    """Return the data of a record, whose number is used in messages."""
    length = _read_length(file, offset, index, os.fstat(file.fileno()).st_size)
    data = file.read(length)
    (checksum,) = _CHECKSUM.unpack(file.read(_CHECKSUM.size))
    if checksum != masked_crc32c(data):
        raise InputError(f"{_where(file.name, offset, index)} is damaged: the checksum of its data is wrong")
    return data


def _find_records(path: str) -> np.ndarray:
    """Return the offset of each record of a file."""
    try:
        with open(path, "rb") as file:
            size, offset = os.fstat(file.fileno()).st_size, 0
            if os.path.isfile(path + _INDEX):
                return _read_index(path, size)
            offsets = []
            while offset < size:
                offsets.append(offset)
                offset += _HEADER.size + _read_length(file, offset, len(offsets) - 1, size) + _CHECKSUM.size
    except OSError as error:
        raise InputError(f"the TFRecord file {path} cannot be read: {error}") from error
    return np.array(offsets, np.int64)


def _read_index(path: str, size_bytes: int) -> np.ndarray:
    """Return the offsets of records from the index of a file: a line for each, with offset and size."""
    try:
        with open(path + _INDEX, encoding="ascii") as file:
            numbers = np.array(file.read().split(), np.int64)
        offsets, sizes = numbers.reshape(-1, 2).T
        fits = np.array_equal(np.append(offsets, size_bytes), np.append(0, offsets + sizes))
        # Sums of 64 bits begin again at the lowest number.
        fits = fits and bool((sizes > 0).all() and (offsets >= 0).all())
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"the index {path + _INDEX} does not fit its file of {size_bytes} bytes, which may have been cut off: "
            "write both again, or remove the index of a complete file"
        )
    return offsets


def _read_length(file: IO[bytes], offset: int, index: int, file_size: int) -> int:
    """Read a header; return the size of the data after it, which the file has."""
    file.seek(offset)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise InputError(f"{_where(file.name, offset, index)} was cut off: the file ends in its header")
    length, checksum = _HEADER.unpack(header)
    if checksum != masked_crc32c(header[: _LENGTH.size]):
        raise InputError(f"{_where(file.name, offset, index)} is damaged: the checksum of its length is wrong")
    end = offset + _HEADER.size + length + _CHECKSUM.size
    if end > file_size:
        raise InputError(f"{_where(file.name, offset, index)} was cut off: it ends at byte {end} of {file_size}")
    return length


def _where(path: str, offset: int, index: int) -> str:
    return f"record {index} of the TFRecord file {path}, at byte {offset},"
