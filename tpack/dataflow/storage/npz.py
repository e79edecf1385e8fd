"""Data points kept in an npz file, and in memory as bytes."""

import os

import numpy as np

from tpack.dataflow.base import DataFlow
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import InputError
from tpack.utils import logger, serialize
from tpack.utils.fs import atomic_write
from tpack.utils.npz import read_npz
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_local_path


class NumpySerializer:
    """Write a small flow to an npz file, compressed, and read such a file as a flow.

    All of the data is in memory, as bytes, on writing and on reading. Unlike tensorpack's, the file holds no pickles:
    an array ``buffer`` of the data points as ``tpack.utils.serialize`` makes them, and an array ``ends`` that says
    where each of them ends. Files that tensorpack wrote cannot be read.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str]) -> None:
        """Write one pass over a flow; ``reset_state`` is called first.

        The file takes its place when it is whole.

        Args:
            df: the flow.
            path: the file. Nothing is appended to its name.

        Raises:
            DataPointError: A data point cannot be serialized.
        """
        df.reset_state()
        points = [serialize.dumps(point) for point in get_tqdm(df)]
        ends = np.cumsum([len(point) for point in points], dtype=np.int64)
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, buffer=np.frombuffer(b"".join(points), np.uint8), ends=ends)
        logger.info("Wrote %d data points to %s", len(points), os.fspath(path))

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = True) -> DataFlow:
        """Return a flow of the data points in a file. Each pass makes them anew.

        Args:
            path: the file.
            shuffle: whether each pass has a new order.

        Raises:
            InputError: The file is missing, damaged, or was not written by `save`.
        """
        path = check_local_path(NumpySerializer(), "path", path)
        arrays = read_npz(path)
        if arrays.keys() != {"buffer", "ends"}:
            raise InputError(f"the file {path} was not written by NumpySerializer: it has the arrays {sorted(arrays)}")
        return _SerializedPoints(path, arrays["buffer"], arrays["ends"], shuffle)


class _SerializedPoints(IndexedDataFlow):
    """Yield data points that are kept as bytes in one array."""

    def __init__(self, path: str, buffer: np.ndarray, ends: np.ndarray, shuffle: bool) -> None:
        super().__init__(shuffle)
        are_places = ends.dtype == np.int64 and ends.ndim == 1 and buffer.dtype == np.uint8 and buffer.ndim == 1
        starts = np.concatenate([[0], ends if are_places else [-1]])
        if np.any(np.diff(starts) < 0) or starts[-1] != len(buffer):
            raise InputError(
                f"the file {path} was not written by NumpySerializer: its data points do not fill its buffer"
            )
        self._path = path
        self._buffer = buffer
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def _read(self, index: int) -> object:
        start, end = self._starts[index : index + 2]
        try:
            return serialize.loads(self._buffer[start:end].data)
        except InputError as error:
            raise InputError(f"data point {index} of the file {self._path} is damaged: {error}") from error
