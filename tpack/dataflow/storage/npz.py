"""Data points in an npz file, and in memory as bytes."""

import os

import numpy as np

from tpack.dataflow.base import DataFlow
from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import InputError
from tpack.utils import logger, serialize
from tpack.utils.formats.npz import MAX_BYTES, read_npz
from tpack.utils.fs import atomic_write
from tpack.utils.progress import get_tqdm
from tpack.utils.validation import check_local_path


class NumpySerializer:
    """Write a small flow to an npz file, compressed, and read such a file as a flow.

    All data is in memory as bytes, in writing and in reading. Unlike tensorpack's, the file has no pickles: an array
    ``buffer`` of the data points as ``tpack.utils.serialize`` makes them, and an array ``ends`` of their ends.
    Tensorpack's files cannot be read.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str]) -> None:
        """Write one pass over a flow, after its ``reset_state``. The file, of this very name, appears when complete.

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
    def load(path: str | os.PathLike[str], shuffle: bool = True, *, max_bytes: int = MAX_BYTES) -> DataFlow:
        """Return a flow of the data points in a file, which are made in each pass.

        Args:
            path: the file.
            shuffle: whether each pass has a new order.
            max_bytes: the limit of its decompressed content.

        Raises:
            InputError: The file is missing, damaged, too large, or of another kind.
        """
        path = check_local_path(NumpySerializer(), "path", path)
        arrays = read_npz(path, max_bytes=max_bytes)
        if arrays.keys() != {"buffer", "ends"}:
            raise InputError(f"{path} has the arrays {sorted(arrays)}: expected a file of NumpySerializer")
        return _SerializedPoints(path, arrays["buffer"], arrays["ends"], shuffle)


class _SerializedPoints(IndexedDataFlow):
    def __init__(self, path: str, buffer: np.ndarray, ends: np.ndarray, shuffle: bool) -> None:
        super().__init__(shuffle)
        are_places = ends.dtype == np.int64 and ends.ndim == 1 and buffer.dtype == np.uint8 and buffer.ndim == 1
        starts = np.concatenate([[0], ends if are_places else [-1]])
        if np.any(np.diff(starts) < 0) or starts[-1] != len(buffer):
            raise InputError(f"{path} has data points that do not fill its buffer: expected a file of NumpySerializer")
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
