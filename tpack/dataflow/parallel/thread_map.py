"""A flow mapped in threads."""

from collections.abc import Callable
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.pool import MapPool
from tpack.dataflow.parallel.thread_pool import ThreadPool
from tpack.utils.concurrency import usable_cores


class MultiThreadMapData(MapFlow):
    """Map data points in threads: for functions that wait, or that work without Python's lock, as OpenCV's do.

    With ``strict`` the points come in the order of the flow, each pass has exactly those of a pass of the flow, and the
    position can be told. Otherwise they come as they are finished; a pass has as many as one of the flow, but
    ``buffer_size`` of them stay with the threads for the next.

    Where the function returns None, the point is dropped; with ``strict`` too, where tensorpack refuses it. An
    exception of the function comes out as a `DataWorkerError` when it is the turn of its point.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_thread: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num_thread: the number of threads; None is one for each core.
            map_func: gets a data point and returns one, or None to drop it. Called in several threads at a time.
            buffer_size: how many points are with the threads, or wait to be yielded.
            strict: whether the order and the passes of ``ds`` are kept.

        Raises:
            ConfigError: The function cannot be called, or a number is less than 1.
        """
        super().__init__(ds, map_func, buffer_size, strict)
        self.num_thread = usable_cores() if num_thread is None else check_at_least(self, "num_thread", num_thread)

    def _start_pool(self) -> MapPool:
        return ThreadPool(type(self).__name__, self.map_func, self.num_thread)
