"""Traced runs in Chrome's trace format, for ui.perfetto.dev and chrome://tracing.

Each device is a process, with threads for concurrent operations; before them come a process for the steps and one for
the allocators' memory.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tpack.callbacks.profiling.spans import Allocation, Interval, Span

_STEPS, _MEMORY, _FIRST_DEVICE = 1, 2, 3

Event = dict[str, Any]


def chrome_trace_of(
    steps: Sequence[tuple[str, Sequence[Span]]], waits: Iterable[Interval], allocations: Iterable[Sequence[Allocation]]
) -> str:
    """Return a trace as JSON.

    Args:
        steps: the name and the spans of each run.
        waits: intervals in which steps waited for data.
        allocations: each run's allocations, by time.
    """
    spans = [span for _, spans in steps for span in spans]
    devices = sorted({span.device for span in spans})
    events = [_process(_STEPS, "steps"), _process(_MEMORY, "memory"), _thread(_STEPS, 0, "run")]
    events.append(_thread(_STEPS, 1, "waits for data"))
    for name, parts in steps:
        if parts:
            events.append(_slice(name, _STEPS, 0, (parts[0].begin, max(span.end for span in parts))))
    events += [_slice("waits for data", _STEPS, 1, wait) for wait in waits]
    for number, device in enumerate(devices, _FIRST_DEVICE):
        events.append(_process(number, device))
        # Each operation in the first thread that is free at its beginning.
        free_at: list[int] = []
        for span in sorted((span for span in spans if span.device == device), key=lambda span: span.begin):
            thread = next((k for k, end in enumerate(free_at) if end <= span.begin), len(free_at))
            free_at[thread : thread + 1] = [span.end]
            event = _slice(span.kind, number, thread, (span.begin, span.end))
            events.append({**event, "args": {"operation": span.operation}})
    for run in allocations:
        taken: dict[str, int] = defaultdict(int)
        for item in run:
            taken[item.allocator] += item.size_bytes
            megabytes = {"MB": taken[item.allocator] / 1e6}
            events.append({"name": item.allocator, "ph": "C", "pid": _MEMORY, "ts": item.at, "args": megabytes})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _slice(name: str, process: int, thread: int, interval: Interval) -> Event:
    begin, end = interval
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": end - begin}


def _process(number: int, name: str) -> Event:
    return {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}


def _thread(process: int, number: int, name: str) -> Event:
    return {"name": "thread_name", "ph": "M", "pid": process, "tid": number, "args": {"name": name}}
