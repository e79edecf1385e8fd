"""Find out where the time and the memory of a step go, by tracing a few steps."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps, training_towers
from tpack.callbacks.profiling.report import (
    Roles,
    StepTimes,
    TracedRun,
    as_text,
    ready_shares,
    step_times,
    waiting_intervals,
)
from tpack.callbacks.profiling.spans import (
    Allocation,
    Interval,
    MemoryPeak,
    Span,
    memory_peaks,
    read_allocations,
    read_spans,
)
from tpack.compat.runtime import start_profiler, stop_profiler
from tpack.errors import CallbackError, ConfigError
from tpack.graph_copy import op_kinds
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.dequeue import DataWaitReport
from tpack.step.loop_graph import original_name
from tpack.tfutils.dependency import ancestors
from tpack.utils import logger
from tpack.utils.fs import atomic_write, mkdir_p
from tpack.utils.validation import check_arguments, check_count, mismatch

_NO_LIMIT = 2**31 - 1
_STEPS, _MEMORY, _FIRST_DEVICE = 1, 2, 3
_MOST_PLAIN_STEPS = 20
_GRADIENTS = ("grad", "delta")
"""The names of gradients in the definitions of TensorFlow's update operations."""
_OTHER_TOWER = re.compile(r"tower[1-9]\d*/")


@dataclass(frozen=True)
class _Recording:
    """A traced run: its trace, steps, and seconds since the previous run's end, in part waiting for fed data."""

    metadata: tf.RunMetadata
    first_step: int
    num_steps: int
    secs: float
    fed_secs: float

    @property
    def name(self) -> str:
        last = self.first_step + self.num_steps - 1
        return f"step {self.first_step}" if self.num_steps == 1 else f"steps {self.first_step} to {last}"


@check_arguments
class Profile(Callback):
    """Trace a few steps, and report their time and memory in words, a table and traces.

    The log gets the report: whether steps wait for data, the time of operations on each device, and the operations that
    held the memory at its peak. For steps 10 to 15 these files are written:

    - ``profile-10-15.txt``, the report;
    - ``profile-10-15.trace.json``, for https://ui.perfetto.dev and ``chrome://tracing``;
    - ``profile-10-15.gradients.json``, the size of each dense gradient and when it is ready, for ``tpack scale``; not
      with ``steps_per_call``;
    - ``plugins/profile/...``, for TensorBoard's profiler, of as many steps right after the others in the same epoch,
    since
      TensorFlow cannot record both ways at once.

    A traced step takes longer; the table shows both. The step before the first initializes TensorFlow's tracing and is
    not counted. Steps that XLA compiles are traced without it.

    Args:
        steps: the first and the last step to trace, counted from 1 in this run.
        directory: the output directory; the logger's unless given.

    Attributes:
        times: where the time goes, a `StepTimes`; None until it is known.
        peaks: the peak memory of each allocator, `MemoryPeak` each.

    Raises:
        ConfigError: ``steps`` are not two such numbers.
        CallbackError: In ``setup_graph``: there is no output directory.

    Example:
        ``callbacks=[Profile(steps=(10, 15))]``
    """

    def __init__(self, steps: Sequence[int] = (10, 15), *, directory: str | os.PathLike[str] | None = None) -> None:
        if len(steps) != 2 or steps[0] > steps[1]:
            raise ConfigError(mismatch(self, "steps", steps, "the first and the last one, such as (10, 15)"))
        self._first, self._last = (check_count(self, "steps", step) for step in steps)
        self._directory = None if directory is None else os.fspath(directory)
        self._request = tf.train.SessionRunArgs(fetches=[], options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
        self.times: StepTimes | None = None
        self.peaks: list[MemoryPeak] = []
        self._start = self._num_told = 0
        self._told_at = self._told_fed = 0.0
        self._plain_secs: deque[float] = deque(maxlen=_MOST_PLAIN_STEPS)
        self._metadata: tf.RunMetadata | None = None
        self._recordings: list[_Recording] = []
        self._reports: list[DataWaitReport] = []
        self._is_recording_more = self._is_over = False

    def _setup_graph(self) -> None:
        self._directory = self._directory or self._default_directory()
        if self._directory is None:
            raise CallbackError(f"{self} got no directory: expected one, or one of the logger")

    def _default_directory(self) -> str | None:
        return logger.get_logger_dir()

    def _before_train(self) -> None:
        self._start = self.global_step
        # The callbacks that measure how long Python waits for fed data.
        source = self.trainer.input_source
        if isinstance(source, InputSource) and not isinstance(source, FeedfreeInput):
            self._reports = [each for each in source.get_callbacks() if isinstance(each, DataWaitReport)]

    def _before_epoch(self) -> None:
        self._note_end_of_run()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._request if self._first - 1 <= self._num_made + 1 <= self._last else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self._metadata = values.run_metadata

    def _trigger_step(self) -> None:
        if self._is_over:
            return
        self._note_run()
        self._note_end_of_run()
        if self._num_made >= self._last and not self._is_recording_more:
            self._report()
            self._record_more()
        elif self._is_recording_more and self._num_made >= self._last + self._num_steps:
            self._end_recording()

    def _with_several_steps(self) -> WithSteps:
        # Runs end with the last step before, of each kind, and after.
        ends = (self._first - 2, self._first - 1, self._last, self._last + self._num_steps)
        return WithSteps(
            steps_left=lambda: next((end - self._num_made for end in ends if end > self._num_made), _NO_LIMIT)
        )

    @property
    def _num_made(self) -> int:
        return self.global_step - self._start

    @property
    def _num_steps(self) -> int:
        return self._last - self._first + 1

    def _note_run(self) -> None:
        num_steps = self._num_made - self._num_told
        metadata, self._metadata = self._metadata, None
        if not num_steps:
            return
        secs = time.perf_counter() - self._told_at
        if metadata is None or not metadata.HasField("step_stats"):
            self._plain_secs.append(secs / num_steps)
        elif self._num_told + 1 >= self._first:
            fed_secs = self._fed_secs() - self._told_fed
            self._recordings.append(_Recording(metadata, self._num_told + 1, num_steps, secs, fed_secs))

    def _note_end_of_run(self) -> None:
        self._num_told, self._told_at, self._told_fed = self._num_made, time.perf_counter(), self._fed_secs()

    def _fed_secs(self) -> float:
        return sum(report.waited_secs() or 0.0 for report in self._reports)

    def _report(self) -> None:
        recordings, self._recordings = self._recordings, []
        if not recordings:
            logger.warning(f"{self} reports nothing: it was not asked to trace steps {self._first} to {self._last}.")
            return
        data = ancestors([tensor for tower in training_towers(self.trainer) for tensor in tower.inputs])
        model = ancestors(tf.nest.flatten(self.trainer.train_op)) if self.trainer.train_op is not None else set()
        staging = ancestors([op for op in self.graph.get_operations() if op.type == "Stage"]) - model - data
        roles = Roles({op.name for op in data}, {op.name for op in staging})
        stats = [recording.metadata.step_stats for recording in recordings]
        runs = [
            TracedRun(read_spans(stat, original_name), recording.num_steps, recording.secs, recording.fed_secs)
            for stat, recording in zip(stats, recordings, strict=True)
        ]
        allocations = [read_allocations(stat, original_name) for stat in stats]
        self.times = step_times(runs, roles, self._plain_secs)
        self.peaks = _largest(allocations)
        text = as_text(self.times, self.peaks, (self._first, self._last))
        named = [(recording.name, run.spans) for recording, run in zip(recordings, runs, strict=True)]
        waits = [wait for run in runs for wait in waiting_intervals(run.spans, roles)]
        files = {"txt": text, "trace.json": chrome_trace_of(named, waits, allocations)}
        if all(run.num_steps == 1 for run in runs):
            files["gradients.json"] = self._gradients(runs, roles, self.times)
        self._write(files)

    def _gradients(self, runs: Sequence[TracedRun], roles: Roles, times: StepTimes) -> str:
        """Return what `tpack scale` reads: the dense gradients of the main tower, and when they are ready."""
        applied = _applied_gradients(self.graph)
        traced = {span.operation for run in runs for span in run.spans}
        causes = {name: _traced_causes(gradient.op, traced) for name, gradient in applied.items()}
        shares = ready_shares(runs, roles, causes)
        gradients = [
            {
                "name": name,
                "shape": gradient.shape.as_list(),
                "dtype": gradient.dtype.base_dtype.name,
                "ready": shares.get(name, 1.0),
                "sparse": False,
            }
            for name, gradient in applied.items()
        ]
        plain = list(self._plain_secs)
        secs = (median(plain) if plain else times.total) - times.waiting
        # The first steps take much longer; of a normal distribution the quartiles are 1.35 deviations apart.
        low, _, high = quantiles(plain, n=4) if len(plain) > 1 else (0.0,) * 3
        jitter = (high - low) / 1.35
        return json.dumps({"step_secs": max(0.0, secs), "jitter_secs": jitter, "gradients": gradients}, indent=1)

    def _write(self, files: Mapping[str, str]) -> None:
        directory = str(self._directory)
        mkdir_p(directory)
        stem = os.path.join(directory, f"profile-{self._first}-{self._last}")
        for suffix, content in files.items():
            with atomic_write(f"{stem}.{suffix}") as file:
                file.write(content)
        text = files["txt"]
        logger.info(f"{text}\nThe trace is in {stem}.trace.json: open it in https://ui.perfetto.dev")

    def _record_more(self) -> None:
        if self.local_step >= self.trainer.steps_per_epoch:
            logger.warning(f"{self} has no steps left in the epoch to record for TensorBoard's profiler.")
        else:
            try:
                start_profiler(str(self._directory))
                self._is_recording_more = True
                return
            except tf.errors.OpError as error:
                logger.warning(f"{self} records nothing for TensorBoard's profiler: {error.message}")
        self._is_over = True
        self._is_finished()

    def _after_epoch(self) -> None:
        if self._is_recording_more:
            self._end_recording()

    def _end_recording(self) -> None:
        self._stop_recording()
        self._is_over = True
        self._is_finished()

    def _stop_recording(self) -> None:
        self._is_recording_more = False
        stop_profiler()
        logger.info(f"TensorBoard's profiler shows steps {self._last + 1} to {self._num_made} of {self._directory}.")

    def _is_finished(self) -> None:
        """Act when all is written; a subclass may end training here."""

    def _after_train(self) -> None:
        if self._is_recording_more:
            self._stop_recording()
        if self._num_made < self._last:
            logger.warning(
                f"{self} reports nothing: training ended after {self._num_made} steps, before step {self._last}."
            )


def _applied_gradients(graph: tf.Graph) -> dict[str, tf.Tensor]:
    """Return the dense gradients that optimizers apply to variables of the main tower: {name of the variable: it}."""
    found: dict[str, tf.Tensor] = {}
    for op in graph.get_operations():
        if not op_kinds.OPTIMIZER_UPDATE.match(op.type) or "Sparse" in op.type:
            continue
        names = [argument.name for argument in op.op_def.input_arg]
        gradient = next((tensor for name, tensor in zip(names, op.inputs, strict=True) if name in _GRADIENTS), None)
        variable = op.inputs[0].op.name
        if gradient is not None and gradient.shape.is_fully_defined() and not _OTHER_TOWER.match(variable):
            found.setdefault(variable, gradient)
    return found


def _traced_causes(operation: tf.Operation, traced: Collection[str]) -> set[str]:
    """Return the operation if it was traced, otherwise the nearest ones before it that were."""
    found, front, seen = set(), [operation], {operation.name}
    while front:
        each = front.pop()
        if each.name in traced:
            found.add(each.name)
            continue
        before = [*(tensor.op for tensor in each.inputs), *each.control_inputs]
        front += [op for op in before if op.name not in seen]
        seen.update(op.name for op in before)
    return found


def _largest(allocations: Sequence[Sequence[Allocation]]) -> list[MemoryPeak]:
    peaks = sorted((peak for taken in allocations for peak in memory_peaks(taken)), key=lambda peak: peak.size_bytes)
    return sorted({peak.allocator: peak for peak in peaks}.values(), key=lambda peak: -peak.size_bytes)


def chrome_trace_of(
    steps: Sequence[tuple[str, Sequence[Span]]], waits: Iterable[Interval], allocations: Iterable[Sequence[Allocation]]
) -> str:
    """Return a trace in Chrome's format, with a process for each device, the steps and the allocators' memory.

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


def _slice(name: str, process: int, thread: int, interval: Interval) -> dict[str, Any]:
    begin, end = interval
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": end - begin}


def _process(number: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}}


def _thread(process: int, number: int, name: str) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": process, "tid": number, "args": {"name": name}}
