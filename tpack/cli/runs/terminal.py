"""The terminal view of runs as lines of text, with curves in braille letters of two columns of four dots each."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tpack.callbacks.monitors import stats_file
from tpack.callbacks.monitors.run_status import NO_END, read_run
from tpack.errors import CallbackError, InputError
from tpack.utils.fs import open_regular
from tpack.utils.timer import humanize_time_delta

_POSITION = ("epoch_num", "global_step")
_CURVE_WIDTH, _CURVE_HEIGHT = 36, 4
_BAR_WIDTH = 30
_EMPTY = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_COLUMNS, _ROWS = 2, 4


LOG_FILE = "log.log"

_LINE = re.compile(r"^\[(\d\d-\d\d \d\d:\d\d:\d\d) @[^\]]+\] (?:(WRN|ERR|DBG) )?(.*)$")

_MOST_LINES = 200
_LONGEST_LINE = 1 << 16


@dataclass
class RunLog:
    """The contents of a log, to which a resumed run appends.

    Attributes:
        warnings: the last 200 warnings and errors, with their times.
        last: the time of the last line.
    """

    warnings: list[str] = field(default_factory=list)
    last: str = ""


def run_lines(label: str, directory: str, width: int, height: int) -> list[str]:
    """Return the lines about one run.

    Args:
        label: its name.
        directory: its directory, which may not exist yet.
        width: the width of a line.
        height: the most lines.
    """
    try:
        log = read_log(directory)
        entries, told = stats_file.read_entries(directory) or [], read_run(directory)
    except (CallbackError, InputError, OSError) as error:
        return _cut([f"{label}: {error}"], width, height)
    # Programs of users write texts, too.
    entries = [{name: value for name, value in entry.items() if not isinstance(value, str)} for entry in entries]
    if not entries and not log.last and not told:
        return _cut([f"{label}: nothing yet, in {directory}"], width, height)
    latest = {name: value for entry in entries for name, value in entry.items()}
    lines = [f"{label}: {state_of(told)}, {_position(told, latest)}, last line {log.last or '-'}"]
    if progress := told.get("progress"):
        lines.append(f"  {_bar(progress)}")
    lines.append("  " + "   ".join([*_speed(told), *_facts(latest)]))
    if log.warnings:
        lines.append(f"  {len(log.warnings)} warning(s), the last: {log.warnings[-1]}")
    return _cut([*lines, *_curves(entries, width, height - len(lines))], width, height)


def state_of(told: Mapping[str, Any]) -> str:
    """Return the state of a run, or the reason of its end, from its ``run.json``, which may be empty."""
    return str(told.get("reason") or told.get("state", "unknown"))


def _position(told: Mapping[str, Any], latest: Mapping[str, Any]) -> str:
    progress = told.get("progress", {})
    epoch = progress.get("epoch") or latest.get("epoch_num", 0)
    last = progress.get("max_epoch", NO_END)
    step = progress.get("global_step", latest.get("global_step"))
    return f"epoch {epoch}{f' of {last}' if last < NO_END else ''}{'' if step is None else f', step {step}'}"


def _bar(progress: Mapping[str, Any]) -> str:
    """Return the progress within the epoch."""
    step, steps = progress.get("step", 0), max(1, progress.get("steps_per_epoch", 1))
    filled = min(_BAR_WIDTH, _BAR_WIDTH * step // steps)
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {step}/{steps} steps of the epoch"


def _speed(told: Mapping[str, Any]) -> list[str]:
    """Return the time of the last epoch, and the speed of a running training."""
    progress = told.get("progress", {})
    facts = [f"an epoch takes {humanize_time_delta(progress['epoch_secs'])}"] if "epoch_secs" in progress else []
    if told.get("state") == "running" and "steps_per_sec" in progress:
        facts.append(f"{progress['steps_per_sec']:.4g} steps/sec")
        if "secs_left" in progress:
            facts.append(f"{humanize_time_delta(progress['secs_left'])} left")
    return facts


def _facts(latest: Mapping[str, Any]) -> list[str]:
    facts = []
    for name, value in latest.items():
        if name.startswith("Throughput"):
            facts.append(f"{value:.4g} {name.partition('(')[2].rstrip(')')}")
        elif name.endswith("/data_wait_ratio"):
            facts.append(f"waits for data {100 * value:.0f} %")
        elif name.startswith(("GPUUtil/", "GPUMemory", "HostFreeMemory")):
            facts.append(f"{name} {value:.4g}")
    return facts


def _curves(entries: Sequence[Mapping[str, Any]], width: int, height: int) -> list[str]:
    """Return curves of statistics side by side, as far as there is room."""
    names = dict.fromkeys(name for entry in entries for name in entry if name not in _POSITION)
    # Statistics of parts, such as an input source's queue, come after those of the model.
    ordered = sorted(names, key=lambda name: ("/" in name, name.lower()))
    beside = max(1, width // (_CURVE_WIDTH + 2))
    lines: list[str] = []
    for first in range(0, len(ordered), beside):
        if len(lines) + _CURVE_HEIGHT + 1 > height:
            break
        blocks = [_curve(name, entries) for name in ordered[first : first + beside]]
        lines += ["  " + "  ".join(parts).rstrip() for parts in zip(*blocks, strict=True)]
    return lines


def _curve(name: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    values = [float(entry[name]) for entry in entries if isinstance(entry.get(name), int | float)]
    told = f" {values[-1]:.5g}" if values and math.isfinite(values[-1]) else " not finite"
    width = min(_CURVE_WIDTH, max(1, len(values)))
    title = f"{name[: _CURVE_WIDTH - len(told)]}{told}"
    return [line.ljust(_CURVE_WIDTH) for line in (title, *curve_lines(values, width, _CURVE_HEIGHT))]


def _cut(lines: Sequence[str], width: int, height: int) -> list[str]:
    shown = [printable(line) for line in lines[: max(1, height)]]
    return [line if len(line) <= width else f"{line[: max(0, width - 1)]}…" for line in shown]


def printable(text: str) -> str:
    """Return text from a file without the characters that control a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def curve_lines(values: Sequence[float], width: int, height: int) -> list[str]:
    """Return a curve as lines of letters, the highest first.

    Args:
        values: at equal distances; those that are not finite are gaps.
        width: letters in a line.
        height: lines.
    """
    columns, rows = _COLUMNS * width, _ROWS * height
    finite = [value for value in values if math.isfinite(value)]
    cells = [[_EMPTY] * width for _ in range(height)]
    if finite:
        low, high = min(finite), max(finite)
        # By halves: the difference of two large numbers may be infinite.
        scale = (rows - 1) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.0
        before: int | None = None
        for column in range(columns if len(values) > 1 else 1):
            value = values[round(column * (len(values) - 1) / max(1, columns - 1))]
            row = round((value / 2 - low / 2) * scale) if math.isfinite(value) else None
            for dot in _dots_between(before, row):
                bit = _DOTS[column % _COLUMNS][_ROWS - 1 - dot % _ROWS]
                cells[height - 1 - dot // _ROWS][column // _COLUMNS] |= bit
            before = row
    return ["".join(map(chr, line)) for line in cells]


def _dots_between(before: int | None, row: int | None) -> range:
    """Return the dots of a column that join the value of the previous column to its own."""
    if row is None:
        return range(0)
    if before is None or before == row:
        return range(row, row + 1)
    return range(before + 1, row + 1) if before < row else range(row, before)


def read_log(directory: str) -> RunLog:
    """Return the contents of the log in a directory; empty without a log."""
    log = RunLog()
    path = os.path.join(directory, LOG_FILE)
    with suppress(FileNotFoundError), open_regular(path) as file:
        while content := file.readline(_LONGEST_LINE):
            line = content.decode(errors="replace")
            # The last line may be incomplete.
            found = _LINE.match(line.rstrip("\n")) if line.endswith("\n") else None
            if found is not None:
                log.last, mark, text = found.groups()
                if mark in ("WRN", "ERR"):
                    log.warnings = [*log.warnings, f"{log.last} {text}"][-_MOST_LINES:]
    return log
