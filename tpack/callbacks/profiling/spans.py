"""Operations of traced runs and their times, read from TensorFlow's traces.

Times are microseconds of the machine's clock. An operation that waits, for data or another device, is recorded from the
beginning of its wait.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpack.graph_copy import op_kinds

Interval = tuple[int, int]
"""Begin and end."""

_DEVICE = re.compile(r"device:(\w+:\d+)", re.IGNORECASE)
_KIND = re.compile(r" = (\w+)\(")
_ON_A_STREAM, _ON_ANY_STREAM = ("/stream:", "/memcpy", "/sync"), "/stream:all"


@dataclass(frozen=True)
class Span:
    """One run of an operation, or of a kernel on a GPU."""

    operation: str
    kind: str  # its type, such as ``"MatMul"``
    device: str  # such as ``"CPU:0"``; of kernels ``"GPU:0 kernels"``
    begin: int
    end: int

    @property
    def is_transfer(self) -> bool:
        """Whether it only copies a tensor between devices, for which it waits."""
        return self.kind in op_kinds.TRANSFERS


@dataclass(frozen=True)
class Allocation:
    """Memory that an operation took or gave back."""

    allocator: str
    operation: str
    at: int
    size_bytes: int  # negative if given back


@dataclass(frozen=True)
class MemoryPeak:
    """The peak of an allocator's memory."""

    allocator: str
    size_bytes: int
    operation: str  # the last operation that took memory
    holders: Sequence[tuple[str, int]]  # pairs of an operation and its memory then, the largest first


def read_spans(step_stats: Any, name_of: Callable[[str], str] = str) -> list[Span]:
    """Return a run's spans, by their begin.

    Args:
        step_stats: the ``step_stats`` of a ``tf.RunMetadata``.
        name_of: maps recorded names to names of operations.
    """
    devices = [stats.device for stats in step_stats.dev_stats]
    has_all = any(device.endswith(_ON_ANY_STREAM) for device in devices)
    spans = []
    for stats in step_stats.dev_stats:
        is_stream = any(mark in stats.device for mark in _ON_A_STREAM)
        # The stream of all has the spans of the others.
        if has_all and is_stream and not stats.device.endswith(_ON_ANY_STREAM):
            continue
        found = _DEVICE.search(stats.device)
        device = f"{found[1].upper()}{' kernels' if is_stream else ''}" if found else stats.device
        spans += [_span(node, device, name_of) for node in stats.node_stats]
    return sorted(spans, key=lambda span: span.begin)


def read_allocations(step_stats: Any, name_of: Callable[[str], str] = str) -> list[Allocation]:
    """Return a run's allocations, by time; arguments as for `read_spans`."""
    allocations = [
        Allocation(memory.allocator_name, name_of(node.node_name), record.alloc_micros, record.alloc_bytes)
        for stats in step_stats.dev_stats
        for node in stats.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    ]
    # Of one time, memory was taken before other memory was given back.
    return sorted(allocations, key=lambda item: (item.at, -item.size_bytes))


def memory_peaks(allocations: Iterable[Allocation]) -> list[MemoryPeak]:
    """Return the peak of each allocator in one run, the largest first.

    Args:
        allocations: the run's, by time.
    """
    held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    sums: dict[str, int] = defaultdict(int)
    peaks: dict[str, MemoryPeak] = {}
    for item in allocations:
        sums[item.allocator] += item.size_bytes
        held[item.allocator][item.operation] += item.size_bytes
        known = peaks.get(item.allocator)
        if item.size_bytes > 0 and (known is None or sums[item.allocator] > known.size_bytes):
            holders = tuple(held[item.allocator].items())
            peaks[item.allocator] = MemoryPeak(item.allocator, sums[item.allocator], item.operation, holders)
    for name, peak in peaks.items():
        largest = sorted((each for each in peak.holders if each[1] > 0), key=lambda each: -each[1])
        peaks[name] = replace(peak, holders=largest)
    return sorted(peaks.values(), key=lambda peak: -peak.size_bytes)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals, in order and disjoint."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif end > begin:
            result.append((begin, end))
    return result


def without(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return merged intervals without the parts in others, which are merged too."""
    result = []
    cuts = list(others)
    for begin, end in intervals:
        for low, high in cuts:
            if high <= begin or low >= end:
                continue
            if low > begin:
                result.append((begin, low))
            begin = max(begin, high)
        if begin < end:
            result.append((begin, end))
    return result


def length(intervals: Iterable[Interval]) -> int:
    """Return the total length of merged intervals."""
    return sum(end - begin for begin, end in intervals)


def _span(node: Any, device: str, name_of: Callable[[str], str]) -> Span:
    kind = _KIND.search(node.timeline_label)
    name, _, type_name = node.node_name.partition(":")
    begin = node.all_start_micros + node.op_start_rel_micros
    end = node.all_start_micros + max(node.op_end_rel_micros, node.op_start_rel_micros)
    return Span(name_of(name), kind[1] if kind else type_name or name, device, begin, end)
