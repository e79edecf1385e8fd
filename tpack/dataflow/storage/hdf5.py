"""Data points as arrays in an HDF5 file, which other programs can read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import aggregate
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import logger
from tpack.utils.fs import atomic_path
from tpack.utils.lazy import import_optional
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_arguments, check_instances, check_local_path

if TYPE_CHECKING:
    import h5py

# Data points written at a time, and the approximate size of the chunks of an array in the file.
_POINTS_AT_A_TIME = 256
_PIECE_SIZE_BYTES = 1 << 16
# From HDF5 1.10 of 2016 on, metadata has checksums, too.
_VERSIONS = ("v110", "v110")


@check_arguments
class HDF5Data(IndexedDataFlow):
    """Yield lists of the k-th entries of some arrays in an HDF5 file, read when yielded; tensorpack reads all at once.

    Args:
        data_paths: the paths of the arrays in the file, one for each component. All must have one length.

    Raises:
        ConfigError: ``data_paths`` is not a list or is empty.
        InputError: The file cannot be read, has no such array, or the arrays differ in length.
        DependencyError: The package ``h5py`` is not installed.
    """

    def __init__(self, filename: str | os.PathLike[str], data_paths: Sequence[str], shuffle: bool = True) -> None:
        data_paths = check_instances(self, "data_paths", data_paths, str, least=1)
        super().__init__(shuffle)
        self.filename = check_local_path(self, "filename", filename)
        self.data_paths = list(data_paths)
        with _open(self.filename) as file:
            lengths = [_length_of(file, self.filename, path) for path in self.data_paths]
        if len(set(lengths)) > 1:
            file_name = f"the HDF5 file {self.filename}"
            raise InputError(f"{file_name} has arrays {self.data_paths} of lengths {lengths}: expected the same length")
        self._size = lengths[0]

    def __len__(self) -> int:
        return self._size

    def _points(self, start: int) -> Iterator[list[Any]]:
        # Each pass opens the file: an open one can neither be pickled nor inherited by a fork.
        with _open(self.filename) as file:
            arrays = [file[path] for path in self.data_paths]
            for index in self._draw_order()[start:].tolist():
                yield [self._entry(array, index) for array in arrays]

    def _read(self, index: int) -> list[Any]:
        with _open(self.filename) as file:
            return [self._entry(file[path], index) for path in self.data_paths]

    def _entry(self, array: h5py.Dataset, index: int) -> np.ndarray | np.generic:
        try:
            return array[index]
        except OSError as error:
            name = f"entry {index} of {array.name} in the HDF5 file {self.filename}"
            raise InputError(f"{name} cannot be read: {error}") from error


class HDF5Serializer:
    """Write a flow to an HDF5 file, one array for each component, and read such a file as a flow.

    The data points must be lists or tuples of numbers and numeric arrays, each component of one shape and dtype. Chunks
    and metadata have checksums; programs with HDF5 1.10 or newer read the file.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str], data_paths: Sequence[str]) -> None:
        """Write one pass over a flow, after its ``reset_state``. The file takes its place when it is complete.

        Raises:
            ConfigError: ``data_paths`` has not one path for each component, or the flow has no data point.
            DataPointError: A data point cannot be written, or differs from those before it.
        """
        library = import_optional("h5py", "hdf5")
        df.reset_state()
        count = 0
        with atomic_path(path) as temporary, library.File(temporary, "w", libver=_VERSIONS) as file:
            for first_index, columns in _column_chunks(df):
                if count == 0:
                    _make_arrays(file, columns, data_paths)
                _append(file, columns, data_paths, first_index)
                count = first_index + len(columns[0])
            if count == 0:
                raise ConfigError("HDF5Serializer got a flow without data points: expected at least one")
        logger.info("Wrote %d data points to %s", count, os.fspath(path))

    @staticmethod
    def load(path: str | os.PathLike[str], data_paths: Sequence[str], shuffle: bool = True) -> DataFlow:
        """Return a flow of the data points in a file, as `HDF5Data` with the same arguments and exceptions."""
        return HDF5Data(path, data_paths, shuffle)


def _open(filename: str) -> h5py.File:
    library = import_optional("h5py", "hdf5")
    try:
        return library.File(filename, "r")
    except OSError as error:
        raise InputError(f"the HDF5 file {filename} cannot be read: {error}") from error


def _length_of(file: h5py.File, filename: str, path: str) -> int:
    array = file.get(path)
    if not getattr(array, "shape", None):
        found = "nothing" if array is None else f"a {type(array).__name__} without a length"
        raise InputError(f"the HDF5 file {filename} has {found} at {path!r}: expected an array")
    return len(array)


def _column_chunks(df: DataFlow) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield some data points at a time, as the index of the first and an array for each component."""
    points = iter(get_tqdm(df))
    first_index = 0
    while chunk := list(islice(points, _POINTS_AT_A_TIME)):
        columns = aggregate(chunk, first_index=first_index)
        if not isinstance(columns, list) or not columns:
            kind = type(chunk[0]).__name__
            given = f"data point {first_index} is a {kind} of {len(chunk[0])}"
            raise DataPointError(f"{given}: expected a list of components")
        yield first_index, columns
        first_index += len(chunk)


def _make_arrays(file: h5py.File, columns: Sequence[np.ndarray], data_paths: Sequence[str]) -> None:
    if not isinstance(data_paths, (list, tuple)) or len(data_paths) != len(columns):
        given = f"data_paths={data_paths!r:.100} and data points of {len(columns)} components"
        raise ConfigError(f"HDF5Serializer got {given}: expected a list of one path for each")
    for path, column in zip(data_paths, columns, strict=True):
        if column.dtype.kind not in "biufc":
            raise DataPointError(f"the component for {path!r} has dtype {column.dtype}: expected numbers")
        entry = column.shape[1:]
        rows = max(1, _PIECE_SIZE_BYTES // max(1, column[0].nbytes))
        pieces = (rows, *(max(1, size) for size in entry))
        # A dimension of size 0 has no limit, since a chunk cannot be larger than it.
        limits = (None, *(size or None for size in entry))
        file.create_dataset(path, (0, *entry), column.dtype, maxshape=limits, chunks=pieces, fletcher32=True)


def _append(file: h5py.File, columns: Sequence[np.ndarray], data_paths: Sequence[str], first_index: int) -> None:
    for path, column in zip(data_paths, columns, strict=True):
        array = file[path]
        if array.shape[1:] != column.shape[1:] or array.dtype != column.dtype:
            raise DataPointError(
                f"from data point {first_index} on, the component for {path!r} has shape {column.shape[1:]} and dtype "
                f"{column.dtype}: expected shape {array.shape[1:]} and dtype {array.dtype}, as before"
            )
        array.resize(first_index + len(column), axis=0)
        array[first_index:] = column
