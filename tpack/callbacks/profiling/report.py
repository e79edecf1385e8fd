"""The time of a step, as numbers and as a table: waiting for data, operations, Python; and its memory.

A step waits for data while the operations before its input tensors run, until the last tower has its data. Staged data
are copied while the step computes: then it waits only after nothing computes any more. Fed data are waited for in
Python.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tabulate import tabulate

from tpack.callbacks.profiling.spans import Interval, MemoryPeak, Span, length, merged, without

MUCH_WAITING = 0.1
"""The fraction of waiting from which the verdict advises faster data."""

_MOST_ROWS = 10
_MOST_HOLDERS = 5
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Roles:
    """The operations that handle a step's data; all others compute."""

    data: Collection[str] = ()  # the ancestors of the towers' input tensors
    staging: Collection[str] = ()  # the operations that copy later data meanwhile


@dataclass(frozen=True)
class TracedRun:
    """One traced run."""

    spans: Sequence[Span]  # its operations
    num_steps: int
    secs: float  # from the end of the previous run to its end
    fed_secs: float = 0.0  # the part in which Python waited for data

    @property
    def micros(self) -> int:
        """The time of the operations."""
        return max(span.end for span in self.spans) - min(span.begin for span in self.spans) if self.spans else 0


@dataclass(frozen=True)
class OperationTime:
    """The time of an operation, or of a kind of operations, on one device."""

    name: str  # of the kind, or of the operation
    device: str
    runs: float  # the number of runs in a step
    secs: float  # their time in a step; concurrent runs count each


@dataclass(frozen=True)
class StepTimes:
    """The time of a step, in seconds."""

    waiting: float  # for data
    computing: float  # the rest of the time in which the graph runs
    python: float  # between the runs of the graph, without waiting for data
    busy: dict[str, float]  # computing time on each device
    plain: float | None  # a step without tracing; None if there was none
    kinds: Sequence[OperationTime]  # operations by their kind
    operations: Sequence[OperationTime]  # single operations

    @property
    def total(self) -> float:
        """The time of a step."""
        return self.waiting + self.computing + self.python

    @property
    def waiting_ratio(self) -> float:
        """The fraction of time that steps wait for data."""
        return self.waiting / self.total if self.total else 0.0

    @property
    def verdict(self) -> str:
        """The advice, in a sentence."""
        share = f"steps wait {100 * self.waiting_ratio:.0f} % of their time for data"
        if self.waiting_ratio >= MUCH_WAITING:
            return f"{share}: more workers, or cheaper augmentation"
        if self.python > self.computing + self.waiting:
            return f"{share}, and more than they compute for Python between two runs: see steps_per_call"
        return f"{share}: the input keeps up"


def ready_shares(runs: Sequence[TracedRun], roles: Roles, causes: Mapping[str, Collection[str]]) -> dict[str, float]:
    """Return when results are there, as shares of the time between the arrival of data and the end of a step.

    Args:
        runs: traced runs, each of one step; the median counts.
        roles: the operations that handle data.
        causes: {name: operations the last of which ends with the result}.

    Returns:
        {name: share}, without those of which no operation was traced.
    """
    shares: dict[str, list[float]] = defaultdict(list)
    for run in (run for run in runs if run.spans):
        waits = waiting_intervals(run.spans, roles)
        begin = waits[-1][1] if waits else min(span.begin for span in run.spans)
        end = max(span.end for span in run.spans)
        ends: dict[str, int] = defaultdict(int)
        for span in run.spans:
            ends[span.operation] = max(ends[span.operation], span.end)
        for name, operations in causes.items():
            last = max((ends[each] for each in operations if each in ends), default=None)
            if last is not None and end > begin:
                shares[name].append(min(1.0, max(0.0, (last - begin) / (end - begin))))
    return {name: median(each) for name, each in shares.items()}


def step_times(runs: Sequence[TracedRun], roles: Roles, plain_secs: Sequence[float] = ()) -> StepTimes:
    """Return the time of a step.

    Args:
        runs: the traced runs, at least one.
        roles: the operations that handle data.
        plain_secs: times of steps without tracing.
    """
    num_steps = sum(run.num_steps for run in runs)
    in_graph = sum(length(waiting_intervals(run.spans, roles)) for run in runs) / 1e6 / num_steps
    fed = sum(run.fed_secs for run in runs) / num_steps
    graph = sum(run.micros for run in runs) / 1e6 / num_steps
    traced = median(run.secs / run.num_steps for run in runs)
    plain = median(plain_secs) if plain_secs else None
    # Tracing slows down Python most, so plain steps give its time.
    outside = max(0.0, (traced if plain is None else min(plain, traced)) - graph)
    # The wait for fed data is part of it, and reported separately.
    python = max(0.0, outside - fed)
    spans = [span for run in runs for span in run.spans if not _waits(span, roles)]
    return StepTimes(
        waiting=in_graph + fed,
        computing=graph - in_graph,
        python=python,
        busy=_busy(runs, roles, num_steps),
        plain=plain,
        kinds=_by_time(((span.kind, span) for span in spans), num_steps),
        operations=_by_time(((span.operation, span) for span in spans), num_steps),
    )


def as_text(times: StepTimes, peaks: Sequence[MemoryPeak], steps: tuple[int, int]) -> str:
    """Return the report.

    Args:
        times: the time.
        peaks: the memory.
        steps: the first and the last traced step.
    """
    parts = [
        f"Profile of steps {steps[0]} to {steps[1]}: {times.verdict}.",
        _time_table(times),
        _operation_table("operations, by kind and device", times.kinds, times.total),
        _operation_table("slowest operations", times.operations, times.total),
    ]
    rows = []
    for peak in peaks:
        rows.append([f"{peak.allocator}: most at once", _bytes(peak.size_bytes), f"at {_short(peak.operation)}"])
        rows += [["", _bytes(size), _short(name)] for name, size in peak.holders[:_MOST_HOLDERS]]
    parts.append(_table(rows, ["memory, besides variables", "size", "held by"]) if rows else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def waiting_intervals(spans: Sequence[Span], roles: Roles) -> list[Interval]:
    """Return the intervals in which a run waited for data inside the graph, in order."""
    direct = merged((span.begin, span.end) for span in spans if span.operation in roles.data)
    staging = merged((span.begin, span.end) for span in spans if span.operation in roles.staging)
    computing = merged((span.begin, span.end) for span in spans if not _waits(span, roles))
    return merged([*direct, *without(staging, computing)])


def _waits(span: Span, roles: Roles) -> bool:
    return span.is_transfer or span.operation in roles.data or span.operation in roles.staging


def _busy(runs: Sequence[TracedRun], roles: Roles, num_steps: int) -> dict[str, float]:
    """Return each device's computing time in a step, in seconds."""
    secs: dict[str, float] = defaultdict(float)
    for run in runs:
        computing = [span for span in run.spans if not _waits(span, roles)]
        for device in {span.device for span in computing}:
            intervals = merged((span.begin, span.end) for span in computing if span.device == device)
            secs[device] += length(intervals) / 1e6 / num_steps
    return dict(sorted(secs.items()))


def _by_time(named: Iterable[tuple[str, Span]], num_steps: int) -> list[OperationTime]:
    runs: dict[tuple[str, str], int] = defaultdict(int)
    micros: dict[tuple[str, str], int] = defaultdict(int)
    for name, span in named:
        runs[name, span.device] += 1
        micros[name, span.device] += span.end - span.begin
    times = [OperationTime(*key, runs[key] / num_steps, micros[key] / 1e6 / num_steps) for key in runs]
    return sorted(times, key=lambda time: -time.secs)


def _time_table(times: StepTimes) -> str:
    rows = [
        ("waiting for data", times.waiting),
        ("computing", times.computing),
        ("Python, between two runs", times.python),
        ("a step", times.total),
        *((f"{device} busy", secs) for device, secs in times.busy.items()),
    ]
    shown = [[name, _millis(secs), _percent(secs, times.total)] for name, secs in rows]
    if times.plain is not None:
        shown.append(["a step that is not traced", _millis(times.plain), ""])
    return _table(shown, ["where the time goes", "ms", "of a step"])


def _operation_table(title: str, operations: Sequence[OperationTime], total: float) -> str:
    shown = [
        [_short(item.name), item.device, f"{item.runs:.3g}", _millis(item.secs), _percent(item.secs, total)]
        for item in operations[:_MOST_ROWS]
    ]
    return _table(shown, [title, "device", "runs", "ms", "of a step"]) if shown else ""


def _table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    aligned = ["right" if header in ("ms", "of a step", "runs", "size") else "left" for header in headers]
    return tabulate(rows, headers, tablefmt="simple", disable_numparse=True, colalign=aligned)


def _millis(secs: float) -> str:
    return f"{1e3 * secs:.3f}" if secs < 0.1 else f"{1e3 * secs:.1f}"


def _bytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:.1f} kB"


def _percent(secs: float, total: float) -> str:
    return f"{100 * secs / total:.0f} %" if total else ""


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
