"""Profiler of flows: each flow in a flow is run by itself, from the source outwards.

The cost of a stage is the time of one of its points less that of the points it takes for it. Workers and queues run as
in training; functions that run in workers are measured in this process, too.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tpack.dataflow.base import DataFlow, close_flow, length_or_none, wrapped_flows
from tpack.dataflow.batch import BatchData
from tpack.dataflow.iterator_state import close_iterator
from tpack.dataflow.mapping import MapData
from tpack.dataflow.repeat import RepeatedDataPoint
from tpack.errors import DataExhaustedError
from tpack.utils.validation import check_arguments, check_number

_WARMUP = 0.25
"""The part of the time before the clock starts in which points are taken; at most eight times that to empty buffers."""


@dataclass(frozen=True)
class Stage:
    """The measurements of one flow in a flow.

    Attributes:
        flow: the flow.
        depth: the number of flows around it.
        inner: the numbers of the stages that it takes points from.
        taken: the average number of points of each of them for one of its own.
        seconds: the time of one of its points, those inside included.
        alone_secs: with workers, the time of one of its points without them; else None.
        num_workers: the number of its processes or threads; 0 for none.
    """

    flow: DataFlow
    depth: int
    inner: tuple[int, ...]
    taken: tuple[float, ...]
    seconds: float
    alone_secs: float | None
    num_workers: int

    @property
    def name(self) -> str:
        """The kind of flow with its main arguments."""
        kind = type(self.flow).__name__
        function = getattr(self.flow, "map_func", None) or getattr(self.flow, "func", None)
        parts = [] if function is None else [_name_of(function)]
        size = getattr(self.flow, "batch_size", None)
        parts += [f"{size} points"] if isinstance(size, int) else []
        parts += [self.workers] if self.num_workers else []
        return f"{kind}({', '.join(parts)})" if parts else kind

    @property
    def workers(self) -> str:
        """The number of its processes or threads, in words."""
        one, several = ("process", "processes") if hasattr(self.flow, "num_proc") else ("thread", "threads")
        return f"{self.num_workers} {one if self.num_workers == 1 else several}"

    def own_secs(self, stages: Sequence["Stage"]) -> float:
        """Return the time of a point in this stage alone; negative where workers make up for more."""
        return self.seconds - sum(
            taken * stages[index].seconds for index, taken in zip(self.inner, self.taken, strict=True)
        )


@check_arguments
def measure_stages(ds: DataFlow, seconds: float = 2.0, clock: Callable[[], float] = time.perf_counter) -> list[Stage]:
    """Run each flow in a flow by itself and measure it.

    Flows are reset, and passes that end are begun again. Nothing stays open. The stages come from the sources outwards.

    Args:
        ds: the flow.
        seconds: the time to measure each stage; more if a point takes longer or a buffer is emptied first.
        clock: returns the time in seconds.

    Raises:
        DataExhaustedError: A flow has no data point.
        ConfigError: The time is not positive.
    """
    check_number("measure_stages", "seconds", seconds, low=0, is_low_allowed=False)
    stages: list[Stage] = []

    def measure(flow: DataFlow, depth: int) -> int:
        sources = wrapped_flows(flow)
        # The threads of a runner have similar flows.
        sources = sources[:1] if hasattr(flow, "num_thread") else sources
        inner = tuple(measure(source, depth + 1) for source in sources)
        took = _seconds_a_point(flow, seconds, clock)
        workers = getattr(flow, "num_proc", getattr(flow, "num_thread", 0))
        alone = _alone(flow, sources[0], seconds, clock) if workers and sources else None
        stages.append(Stage(flow, depth, inner, _taken(flow, sources), took, alone, workers))
        return len(stages) - 1

    measure(ds, 0)
    return stages


def _alone(flow: Any, source: DataFlow, seconds: float, clock: Callable[[], float]) -> float:
    """Return the time of a point of a flow with workers in this process."""
    if not hasattr(flow, "map_func"):
        return _seconds_a_point(source, seconds, clock)
    mapped: DataFlow = MapData(source, flow.map_func)
    size = getattr(flow, "batch_size", None)
    return _seconds_a_point(mapped if size is None else BatchData(mapped, size), seconds, clock)


def _taken(flow: Any, sources: list[DataFlow]) -> tuple[float, ...]:
    """Return the number of points of each source for a point of a flow."""
    if isinstance(flow, RepeatedDataPoint):
        return (1 / flow.num,)
    if len(sources) == 1:
        size = getattr(flow, "batch_size", 1)
        return (float(size) if isinstance(size, int) else 1.0,)
    own, lengths = length_or_none(flow), [length_or_none(source) for source in sources]
    known = [length for length in lengths if length is not None]
    # One after the other, or mixed: its share of each. Side by side: one of each.
    if own is not None and own == sum(known) and len(known) == len(lengths):
        return tuple(length / own for length in known)
    return tuple(1.0 for _ in sources) if own is not None else tuple(1 / len(sources) for _ in sources)


def _seconds_a_point(ds: DataFlow, seconds: float, clock: Callable[[], float]) -> float:
    ds.reset_state()
    points = _endless(ds)
    try:
        _warm_up(ds, points, seconds * _WARMUP, clock)
        count, begin = 0, clock()
        while (took := clock() - begin) < seconds or count == 0:
            next(points)
            count += 1
        return took / count
    finally:
        close_iterator(points)
        ds.end_pass()
        close_flow(ds)


def _warm_up(ds: DataFlow, points: Iterator[Any], seconds: float, clock: Callable[[], float]) -> None:
    """Take points until files are open, workers run and buffers of earlier points are empty."""
    ahead = max(getattr(ds, name, 0) or 0 for name in ("buffer_size", "num_prefetch", "_prefetch"))
    next(points)
    begin, count = clock(), 1
    while clock() - begin < seconds or (count <= ahead and clock() - begin < 8 * seconds):
        next(points)
        count += 1


def _endless(ds: DataFlow) -> Iterator[Any]:
    while True:
        is_empty = True
        for point in ds:
            is_empty = False
            yield point
        if is_empty:
            raise DataExhaustedError(f"{type(ds).__name__} has no data point: expected at least one to measure")


def _name_of(function: Any) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__)).replace("<lambda>", "a lambda")
