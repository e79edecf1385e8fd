"""A flow mapped in processes, which make batches of what they have mapped."""

import functools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.options import check_timeout
from tpack.dataflow.parallel.owned_workers import OwnedWorkers
from tpack.dataflow.parallel.pool import MapPool
from tpack.dataflow.parallel.process_pool import ProcessPool
from tpack.dataflow.parallel.serve_map import serve_batches
from tpack.errors import ConfigError


class MultiProcessMapAndBatchData(MapFlow):
    """Map data points in processes, each of which makes batches, in the memory that they are sent in.

    Each batch is made of as many data points that follow each other in the flow, by one process; with one process it is
    what ``BatchData(MapData(ds, map_func), batch_size)`` yields. Batches come as they are finished. What is left at the
    end of a pass of the flow and is too little for a batch is dropped. Where the function returns None, the point is
    dropped; its process makes up for it with points of the next batch that it makes, and there are fewer batches.
    See `MultiProcessMapData` for the rest.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        batch_size: int,
        buffer_size: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num_proc: the number of processes.
            map_func: gets a data point and returns one, or None to drop it. It is sent to the processes by cloudpickle.
            batch_size: the number of data points of a batch.
            buffer_size: how many data points are with the processes, or wait to be yielded in a batch; None is two
                batches for each process.
            timeout: after how many seconds without an answer a process that has points is taken to hang; a minute more
                while it starts.

        Raises:
            ConfigError: The function cannot be called, a number is less than 1, the timeout is no number, the buffer
                has no room for one batch for each process, or the flow is shorter than a batch.
        """
        num_proc = check_at_least(self, "num_proc", num_proc)
        batch_size = check_at_least(self, "batch_size", batch_size)
        least = num_proc * batch_size
        super().__init__(ds, map_func, 2 * least if buffer_size is None else buffer_size, strict=False)
        self.num_proc = num_proc
        self.batch_size = batch_size
        if self.buffer_size < least:
            raise ConfigError(
                f"{type(self).__name__} got buffer_size={buffer_size}: wanted at least num_proc * batch_size = {least}"
            )
        self._refuse_short(ds)
        self._workers = OwnedWorkers(self, check_timeout(self, timeout))

    def _refuse_short(self, ds: DataFlow) -> None:
        length = length_or_none(ds)
        if length is not None and length < self.batch_size:
            raise ConfigError(
                f"{type(self).__name__} got batch_size={self.batch_size} and a flow of {length} data points: it would "
                "yield nothing"
            )

    def __len__(self) -> int:
        return len(self.ds) // self.batch_size

    @property
    def _num_jobs(self) -> int:
        return self.buffer_size // self.batch_size

    def _make_begin(self) -> Callable[[], Iterator[Any]]:
        return functools.partial(_groups, self.ds, self.batch_size)

    def _start_pool(self) -> MapPool:
        share = -(-self._num_jobs // self.num_proc)
        arguments = (self.map_func, self.batch_size)
        group = self._workers.start(serve_batches, arguments, count=self.num_proc, results=share, jobs=share)
        return ProcessPool(group)


MultiProcessMapAndBatchDataZMQ = MultiProcessMapAndBatchData
"""The name that tensorpack had for another transport; here there is one, and it needs no ZeroMQ."""


def _groups(ds: DataFlow, size: int) -> Iterator[list[Any]]:
    """Begin a pass over a flow, and yield lists of points of one length; the rest is dropped."""
    points = iter(ds)
    while len(group := list(islice(points, size))) == size:
        yield group
