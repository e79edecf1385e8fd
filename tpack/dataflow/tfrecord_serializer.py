"""Data points kept in a TFRecord file."""

import os
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.storage import tensorpack_format
from tpack.dataflow.storage.tfrecord import TFRecordData, write_record
from tpack.errors import InputError
from tpack.utils import logger, serialize
from tpack.utils.fs import atomic_write
from tpack.utils.progress import get_tqdm


class TFRecordSerializer:
    """Write a flow to a TFRecord file, and read such a file as a flow.

    Each record holds one data point, as ``tpack.utils.serialize`` makes it; it is no ``tf.train.Example``. Files that
    tensorpack wrote can be read too, though not those with arrays of Python objects.
    """

    @staticmethod
    def save(df: DataFlow, path: str | os.PathLike[str]) -> None:
        """Write one pass over a flow; ``reset_state`` is called first.

        The file is written aside and takes its place when it is whole.

        Args:
            df: the flow.
            path: the file.

        Raises:
            DataPointError: A data point cannot be serialized.
        """
        df.reset_state()
        count = 0
        with atomic_write(path, "wb") as file:
            for point in get_tqdm(df):
                write_record(file, serialize.dumps(point))
                count += 1
        logger.info("Wrote %d data points to %s", count, os.fspath(path))

    @staticmethod
    def load(path: str | os.PathLike[str], size: int | None = None, shuffle: bool = False) -> DataFlow:
        """Return a flow of the data points in a file.

        Args:
            path: the file.
            size: how many data points it has, if that is to be checked. (In tensorpack it must be given.)
            shuffle: whether each pass has a new order. (In tensorpack there is no choice.)

        Raises:
            InputError: The file is missing, was cut off, is damaged or holds another number of data points. Iterating
                raises it for a damaged data point, with its place.
        """
        flow = _TFRecordPoints(path, shuffle)
        if size is not None and size != len(flow):
            raise InputError(f"the TFRecord file {flow.path} has {len(flow)} records: wanted {size}")
        return flow


class _TFRecordPoints(TFRecordData):
    """Yield the data points in the records of a TFRecord file."""

    def _decode(self, data: bytes, index: int) -> Any:
        try:
            point = serialize.loads(data)
            return tensorpack_format.loads(data) if tensorpack_format.holds_arrays(point) else point
        except InputError as error:
            where = f"record {index} of the TFRecord file {self.path}, at byte {self._offsets[index]},"
            raise InputError(f"{where} is no data point: {error}") from error
