"""Arrays in an HDF5 file as data points."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from tpack.dataflow.indexed import IndexedDataFlow
from tpack.errors import ConfigError, InputError
from tpack.utils.optional import import_optional


class HDF5Data(IndexedDataFlow):
    """Yield lists of the k-th entries of some arrays in an HDF5 file.

    Entries are read from the file when their turn comes. (tensorpack reads whole arrays into memory.)
    """

    def __init__(self, filename: str | os.PathLike[str], data_paths: Sequence[str], shuffle: bool = True) -> None:
        """Make the flow.

        Args:
            filename: the file.
            data_paths: the paths of the arrays in the file, one for each component. All must have one length.
            shuffle: whether each pass has a new order.

        Raises:
            ConfigError: ``data_paths`` is no list or is empty.
            InputError: The file cannot be read, has no such array, or the arrays are of unlike lengths.
            DependencyError: The package ``h5py`` is not installed.
        """
        if not isinstance(data_paths, (list, tuple)) or not data_paths:
            raise ConfigError(f"HDF5Data got data_paths={data_paths!r:.100}: wanted a list of at least one path")
        super().__init__(shuffle)
        self.filename = os.fspath(filename)
        self.data_paths = list(data_paths)
        with _open(self.filename) as file:
            lengths = [_length_of(file, self.filename, path) for path in self.data_paths]
        if len(set(lengths)) > 1:
            raise InputError(
                f"the arrays {self.data_paths} of the HDF5 file {self.filename} have the lengths {lengths}: wanted one"
            )
        self._size = lengths[0]

    def __len__(self) -> int:
        return self._size

    def _points(self, start: int) -> Iterator[list[Any]]:
        # Each pass opens the file for itself: an open one can neither be pickled nor taken along by a fork.
        with _open(self.filename) as file:
            arrays = [file[path] for path in self.data_paths]
            for index in self._draw_order()[start:].tolist():
                yield [self._entry(array, index) for array in arrays]

    def _read(self, index: int) -> list[Any]:
        with _open(self.filename) as file:
            return [self._entry(file[path], index) for path in self.data_paths]

    def _entry(self, array: Any, index: int) -> Any:
        """Return an entry of an array in the file."""
        try:
            return array[index]
        except OSError as error:
            raise InputError(
                f"entry {index} of the array {array.name} in the HDF5 file {self.filename} cannot be read: {error}"
            ) from error


def _open(filename: str) -> Any:
    """Open a file for reading."""
    h5py = import_optional("h5py", "hdf5")
    try:
        return h5py.File(filename, "r")
    except OSError as error:
        raise InputError(f"the HDF5 file {filename} cannot be read: {error}") from error


def _length_of(file: Any, filename: str, path: str) -> int:
    """Return the length of an array in a file."""
    array = file.get(path)
    if not getattr(array, "shape", None):
        found = "no such entry" if array is None else f"a {type(array).__name__} without a length"
        raise InputError(f"the HDF5 file {filename} has at {path!r} {found}: wanted an array")
    return len(array)
