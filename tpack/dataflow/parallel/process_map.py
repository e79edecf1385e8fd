"""A flow mapped in processes."""

from collections.abc import Callable
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.options import check_timeout
from tpack.dataflow.parallel.owned_workers import OwnedWorkers
from tpack.dataflow.parallel.pool import MapPool
from tpack.dataflow.parallel.process_pool import ProcessPool
from tpack.dataflow.parallel.serve_map import serve_map
from tpack.utils.concurrency import usable_cores


class MultiProcessMapData(MapFlow):
    """Map data points in processes. The flow itself stays in this one; points go to the processes and back.

    With ``strict`` the points come in the order of the flow, each pass has exactly those of a pass of the flow, and the
    position can be told. Otherwise they come as they are finished; a pass has as many as one of the flow, but
    ``buffer_size`` of them stay with the processes for the next.

    Where the function returns None, the point is dropped; with ``strict`` too, where tensorpack refuses it. An
    exception of the function comes out as a `DataWorkerError` when it is the turn of its point. A process that dies
    ends the iteration with its exit code. See `MultiProcessRunner` for how processes are started, and for the memory
    that large arrays lie in.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            num_proc: the number of processes; None is one for each core.
            map_func: gets a data point and returns one, or None to drop it. It is sent to the processes by cloudpickle.
            buffer_size: how many points are with the processes, or wait to be yielded.
            strict: whether the order and the passes of ``ds`` are kept.
            timeout: after how many seconds without an answer a process that has points is taken to hang; a minute more
                while it starts.

        Raises:
            ConfigError: The function cannot be called, a number is less than 1, or the timeout is no number.
        """
        super().__init__(ds, map_func, buffer_size, strict)
        self.num_proc = usable_cores() if num_proc is None else check_at_least(self, "num_proc", num_proc)
        self._workers = OwnedWorkers(self, check_timeout(self, timeout))

    def _start_pool(self) -> MapPool:
        share = -(-self.buffer_size // self.num_proc)
        group = self._workers.start(serve_map, (self.map_func,), count=self.num_proc, results=share, jobs=share)
        return ProcessPool(group)


MultiProcessMapDataZMQ = MultiProcessMapData
"""The name that tensorpack had for another transport; here there is one, and it needs no ZeroMQ."""
