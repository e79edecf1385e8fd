"""What operations did in traced runs, and when: read out of what TensorFlow recorded of them.

Times are microseconds of the machine's clock. An operation that waits, for data or for another device, is recorded
from when it began to wait.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tpack.graph_copy import op_kinds

Interval = tuple[int, int]
"""From when to when."""

_DEVICE = re.compile(r"device:(\w+:\d+)", re.IGNORECASE)
_KIND = re.compile(r" = (\w+)\(")
_ON_A_STREAM, _ON_ANY_STREAM = ("/stream:", "/memcpy", "/sync"), "/stream:all"


@dataclass(frozen=True)
class Span:
    """One run of one operation, or of a kernel on a GPU.

    Attributes:
        operation: the name of the operation.
        kind: its type, such as ``"MatMul"``.
        device: where, such as ``"CPU:0"``; of kernels ``"GPU:0 kernels"``.
        begin: when.
        end: until when.
    """

    operation: str
    kind: str
    device: str
    begin: int
    end: int

    @property
    def is_transfer(self) -> bool:
        """Whether it only hands a tensor from device to device, for which it waits."""
        return self.kind in op_kinds.TRANSFERS


@dataclass(frozen=True)
class Allocation:
    """Memory that an operation took, or that was given back.

    Attributes:
        allocator: whose memory.
        operation: who took it.
        at: when.
        size_bytes: negative where it was given back.
    """

    allocator: str
    operation: str
    at: int
    size_bytes: int


@dataclass(frozen=True)
class MemoryPeak:
    """When the memory of an allocator that runs took was largest.

    Attributes:
        allocator: whose memory.
        size_bytes: how much was taken.
        operation: who took the last of it.
        holders: pairs of an operation and what it held then, the largest first.
    """

    allocator: str
    size_bytes: int
    operation: str
    holders: Sequence[tuple[str, int]]


def read_spans(step_stats: Any, name_of: Callable[[str], str] = str) -> list[Span]:
    """Return the spans of one run, by their beginning.

    Args:
        step_stats: the ``step_stats`` of a ``tf.RunMetadata``.
        name_of: returns the name of the operation that a recorded name stands for.
    """
    devices = [stats.device for stats in step_stats.dev_stats]
    has_all = any(device.endswith(_ON_ANY_STREAM) for device in devices)
    spans = [
        _span(node, _short_device(stats.device), name_of)
        for stats in step_stats.dev_stats
        if not (has_all and _is_part_of_all(stats.device))
        for node in stats.node_stats
    ]
    return sorted(spans, key=lambda span: span.begin)


def read_allocations(step_stats: Any, name_of: Callable[[str], str] = str) -> list[Allocation]:
    """Return what one run took of memory and gave back, by time; arguments as those of `read_spans`."""
    allocations = [
        Allocation(memory.allocator_name, name_of(node.node_name), record.alloc_micros, record.alloc_bytes)
        for stats in step_stats.dev_stats
        for node in stats.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    ]
    # What is given back at the very time at which something is taken was there together with it.
    return sorted(allocations, key=lambda item: (item.at, -item.size_bytes))


def memory_peaks(allocations: Iterable[Allocation]) -> list[MemoryPeak]:
    """Return the peak of each allocator in one run, the largest first.

    Args:
        allocations: those of the run, by time.
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
    return sorted(map(_with_largest_first, peaks.values()), key=lambda peak: -peak.size_bytes)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals that cover the same, in order, with gaps between them."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif end > begin:
            result.append((begin, end))
    return result


def without(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return the parts of merged intervals that lie in none of others, which are merged too."""
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
    """Return how long merged intervals are together."""
    return sum(end - begin for begin, end in intervals)


def _span(node: Any, device: str, name_of: Callable[[str], str]) -> Span:
    kind = _KIND.search(node.timeline_label)
    name, _, told_kind = node.node_name.partition(":")
    begin = node.all_start_micros + node.op_start_rel_micros
    end = node.all_start_micros + max(node.op_end_rel_micros, node.op_start_rel_micros)
    return Span(name_of(name), kind[1] if kind else told_kind or name, device, begin, end)


def _is_part_of_all(device: str) -> bool:
    return any(mark in device for mark in _ON_A_STREAM) and not device.endswith(_ON_ANY_STREAM)


def _short_device(device: str) -> str:
    found = _DEVICE.search(device)
    if found is None:
        return device
    is_stream = any(mark in device for mark in _ON_A_STREAM)
    return f"{found[1].upper()} kernels" if is_stream else found[1].upper()


def _with_largest_first(peak: MemoryPeak) -> MemoryPeak:
    holders = sorted((item for item in peak.holders if item[1] > 0), key=lambda item: -item[1])
    return MemoryPeak(peak.allocator, peak.size_bytes, peak.operation, holders)
