"""Traced runs in the format of Chrome's traces, which ui.perfetto.dev and chrome://tracing show.

Each device is a process there, with a thread for each operation that runs beside others. Before them stands a process
for the steps, and one for the memory of each allocator.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tpack.callbacks.profiling.spans import Allocation, Interval, Span

_STEPS, _MEMORY, _FIRST_DEVICE = 1, 2, 3

Event = dict[str, Any]


def chrome_trace_of(
    steps: Sequence[tuple[str, Sequence[Span]]],
    waits: Iterable[Interval],
    allocations: Iterable[Sequence[Allocation]],
) -> str:
    """Return a trace as JSON.

    Args:
        steps: the name of each run, and what ran in it.
        waits: from when to when steps waited for data.
        allocations: what each run took of memory and gave back, by time.
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
        events += _on_device(number, [span for span in spans if span.device == device])
    for taken in allocations:
        events += _memory(taken)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _on_device(number: int, spans: Sequence[Span]) -> Iterator[Event]:
    """Yield the operations of a device, each in the first thread that is free when it begins."""
    free_at: list[int] = []
    for span in sorted(spans, key=lambda span: span.begin):
        thread = next((k for k, end in enumerate(free_at) if end <= span.begin), len(free_at))
        free_at[thread : thread + 1] = [span.end]
        event = _slice(span.kind, number, thread, (span.begin, span.end))
        yield {**event, "args": {"operation": span.operation}}


def _memory(allocations: Iterable[Allocation]) -> Iterator[Event]:
    """Yield what a run has taken of each allocator's memory, whenever it changes."""
    taken: dict[str, int] = defaultdict(int)
    for item in allocations:
        taken[item.allocator] += item.size_bytes
        megabytes = {"MB": taken[item.allocator] / 1e6}
        yield {"name": item.allocator, "ph": "C", "pid": _MEMORY, "ts": item.at, "args": megabytes}


def _slice(name: str, process: int, thread: int, interval: Interval) -> Event:
    begin, end = interval
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": end - begin}


def _process(number: int, name: str) -> Event:
    return {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}


def _thread(process: int, number: int, name: str) -> Event:
    return {"name": "thread_name", "ph": "M", "pid": process, "tid": number, "args": {"name": name}}
