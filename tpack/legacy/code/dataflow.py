"""Older names of data flows, and functions that wrote flows to files before serializers existed."""

import os
from collections.abc import Callable, Iterator
from multiprocessing import Process, Queue
from typing import Any, NoReturn

from tpack.dataflow.base import DataFlow
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.remote.flow import send_dataflow_zmq
from tpack.dataflow.storage.lmdb import LMDBSerializer
from tpack.dataflow.storage.tfrecord import TFRecordSerializer
from tpack.errors import DependencyError
from tpack.legacy.code.renamed import older_class, older_function
from tpack.legacy.table import say

MultiThreadPrefetchData = older_class("MultiThreadPrefetchData", MultiThreadRunner, module=__name__)
PrefetchDataZMQ = older_class("PrefetchDataZMQ", MultiProcessRunnerZMQ, module=__name__)


class _SelfStarter(MultiProcessRunner):
    """A `MultiProcessRunner` that needs no reset: tensorpack's started its workers in the constructor."""

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; reset the flow before the first one if necessary."""
        if self._stream is None:
            self.reset_state()
        return super().__iter__()


class MultiProcessPrefetchData(_SelfStarter):
    """The older name of `MultiProcessRunner`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        say("MultiProcessPrefetchData", "MultiProcessRunner")
        super().__init__(*args, **kwargs)


class PrefetchData(_SelfStarter):
    """The older name of `MultiProcessRunner`, by default with one process.

    Args:
        ds: the flow.
        nr_prefetch: the most data points that wait.
        nr_proc: the number of processes.
    """

    def __init__(self, ds: DataFlow, nr_prefetch: int, nr_proc: int = 1) -> None:
        say("PrefetchData", "MultiProcessRunner")
        super().__init__(ds, nr_prefetch, nr_proc)


class ThreadedMapData(MultiThreadMapData):
    """Older name of `MultiThreadMapData`, with its arguments in another order.

    Args:
        ds: the flow.
        nr_thread: the number of threads.
        map_func: the function of a data point.
        buffer_size: as for `MultiThreadMapData`.
        strict: as for `MultiThreadMapData`.
    """

    def __init__(
        self, ds: DataFlow, nr_thread: int, map_func: Callable[[Any], Any], buffer_size: int = 200, strict: bool = False
    ) -> None:
        say("ThreadedMapData", "MultiThreadMapData")
        super().__init__(ds, nr_thread, map_func, buffer_size=buffer_size, strict=strict)


def CaffeLMDB(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: N802
    """Raise an error: tpack does not read Caffe's messages.

    Raises:
        DependencyError: Always; it names the replacement.
    """
    raise DependencyError(
        "CaffeLMDB needs Caffe's messages, which tpack does not read: use LMDBDataDecoder(LMDBData(path), function), "
        "with a function that reads them"
    )


@older_function("LMDBDataPoint(path)", "LMDBSerializer.load(path)")
def LMDBDataPoint(lmdb_path: str | os.PathLike[str], shuffle: bool = True) -> DataFlow:  # noqa: N802
    """Return a flow of the data points in an LMDB file."""
    return LMDBSerializer.load(lmdb_path, shuffle=shuffle)


@older_function("dump_dataflow_to_lmdb(df, path)", "LMDBSerializer.save(df, path)")
def dump_dataflow_to_lmdb(df: DataFlow, lmdb_path: str | os.PathLike[str], write_frequency: int = 5000) -> None:
    """Write a pass of a flow to an LMDB file."""
    LMDBSerializer.save(df, lmdb_path, write_frequency)


@older_function("dump_dataflow_to_tfrecord(df, path)", "TFRecordSerializer.save(df, path)")
def dump_dataflow_to_tfrecord(df: DataFlow, path: str | os.PathLike[str]) -> None:
    """Write a pass of a flow to a TFRecord file."""
    TFRecordSerializer.save(df, path)


@older_function("dump_dataflow_to_process_queue(df, size, n)", "MultiProcessRunner(df, size, 1), which is a flow")
def dump_dataflow_to_process_queue(df: DataFlow, size: int, nr_consumer: int) -> tuple[Any, Process]:
    """Return a queue, and a process that puts the numbered data points of a flow into it.

    Args:
        df: the flow.
        size: the most points that wait.
        nr_consumer: the number of end marks ``(None, None)`` after the last point.
    """
    queue: Any = Queue(size)
    return queue, Process(target=_put_points, args=(df, queue, nr_consumer))


def _put_points(df: DataFlow, queue: Any, num_consumers: int) -> None:
    df.reset_state()
    for number, point in enumerate(df):
        queue.put((number, point))
    for _ in range(num_consumers):
        queue.put((None, None))


@older_function("serve_data(ds, addr)", "send_dataflow_zmq(ds, addr)")
def serve_data(ds: DataFlow, addr: str) -> None:
    """Send the data points of a flow to another process or machine forever."""
    send_dataflow_zmq(ds, addr)


@older_function("tqdm(**get_tqdm_kwargs())", "get_tqdm()")
def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """Return arguments for ``tqdm.tqdm``: those given, and defaults that suit a log."""
    return {"smoothing": 0.5, "dynamic_ncols": True, "ascii": True, "mininterval": 0.5, **kwargs}
