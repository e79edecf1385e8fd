"""The entries of an LMDB file as data points, as they are or decoded."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.indexed import IndexedDataFlow
from tpack.dataflow.lmdb_file import LmdbFile
from tpack.dataflow.mapping import MapData
from tpack.dataflow.storage import tensorpack_format
from tpack.errors import ConfigError, InputError


class LMDBData(IndexedDataFlow):
    """Yield the entries of an LMDB file as lists ``[key, value]`` of bytes.

    In a random order each entry is looked up by its key; that is slow on a disk that turns if the file is larger than
    memory. In their own order entries are read one after the other. The entries ``__keys__`` and ``__tpack__``, which
    describe the file, are left out.
    """

    def __init__(
        self, lmdb_path: str | os.PathLike[str], shuffle: bool = True, keys: str | Sequence[str | bytes] | None = None
    ) -> None:
        """Make the flow.

        Args:
            lmdb_path: the file, or a directory with the file ``data.mdb``.
            shuffle: whether each pass has a new order.
            keys: with ``shuffle``, the keys of the entries to yield: a list, or a format that makes keys of the numbers
                from 0 on, such as ``"{:0>8d}"``. Unless given they are those in the entry ``__keys__`` that tensorpack
                wrote, or, if there is none, found by reading through the file once.

        Raises:
            ConfigError: Keys were given without ``shuffle``, or as something else.
            InputError: The file is missing, is no LMDB file, or was cut off.
            DependencyError: The package ``lmdb`` is not installed.
        """
        super().__init__(shuffle)
        if keys is not None and not shuffle:
            raise ConfigError("LMDBData got keys and shuffle=False: without shuffling, entries come in their own order")
        self._path = os.fspath(lmdb_path)
        file = LmdbFile(self._path)
        self._size = len(file)
        self.keys = _find_keys(file, keys) if shuffle else None
        if self.keys is not None:
            self._size = len(self.keys)
        self._file: LmdbFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Open the file in this process, get a new generator and forget the position."""
        super().reset_state()
        self._file = LmdbFile(self._path)

    def _points(self, start: int) -> Iterator[list[bytes]]:
        if self.shuffle:
            yield from super()._points(start)
        else:
            for key, value in self._opened().items(start):
                yield [key, value]

    def _read(self, index: int) -> list[bytes]:
        key = (self.keys or [])[index]
        return [key, self._opened().get(key)]

    def _opened(self) -> LmdbFile:
        """Return the file, open in this process."""
        if self._file is None:
            raise InputError("LMDBData opens its file when it is reset: call reset_state() once before iterating it")
        return self._file


class LMDBDataDecoder(MapData):
    """Yield what a function makes of the keys and values of an LMDB file; None drops the entry."""

    def __init__(self, lmdb_data: DataFlow, decoder: Callable[[bytes, bytes], Any]) -> None:
        """Make the flow.

        Args:
            lmdb_data: an `LMDBData`, or another flow of pairs.
            decoder: gets a key and a value, and returns a data point or None.

        Raises:
            ConfigError: ``decoder`` cannot be called.
        """
        if not callable(decoder):
            raise ConfigError(f"LMDBDataDecoder got decoder={decoder!r}: wanted a function of a key and a value")
        super().__init__(lmdb_data, partial(_decode_pair, decoder))


def _decode_pair(decoder: Callable[[bytes, bytes], Any], pair: Sequence[bytes]) -> Any:
    return decoder(pair[0], pair[1])


def _find_keys(file: LmdbFile, keys: Any) -> list[bytes]:
    """Return the keys of the entries to yield."""
    if isinstance(keys, str):
        return [keys.format(index).encode() for index in range(len(file))]
    if keys is None:
        stored = file.find(b"__keys__")
        keys = file.keys() if stored is None else tensorpack_format.loads(stored)
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, (str, bytes)) for key in keys):
        raise ConfigError(f"LMDBData got keys={keys!r:.100}: wanted a list of keys, or a format with one number in it")
    return [key.encode() if isinstance(key, str) else key for key in keys]
