"""What the log of a run tells of it: how it was started, how far it is, and what it warned of."""

import os
import re
from dataclasses import dataclass, field

LOG_FILE = "log.log"

_LINE = re.compile(r"^\[(\d\d-\d\d \d\d:\d\d:\d\d) @[^\]]+\] (?:(WRN|ERR|DBG) )?(.*)$")
_COMMAND = re.compile(r"^Log directory (.*); command: (.*)$")
_EPOCH_STEPS = re.compile(r"(\d+) steps an epoch")
_START = re.compile(r"^Start Epoch (\d+)")
_FINISHED = re.compile(r"^Epoch (\d+) \(global step (\d+)\) finished, time: (.*)\.$")
_LEFT = re.compile(r"^Estimated time left: (.*)\.$")
_END = "Training has finished!"
_ENDED = re.compile(r"^Training was (?:stopped|ended).*$")
_SETTINGS = re.compile(r"towers?,? |Building the graph|samples a step|elements, |trains with|^Set up|precision")
_MOST_LINES = 200


@dataclass
class RunLog:
    """What the last part of a log tells; a run that resumes appends to it.

    Attributes:
        command: by which the run was started.
        began: when, as the log writes it.
        state: "running", "finished", or why training ended; "not begun" before the first epoch.
        epoch: the epoch that is going on, or the last one.
        steps_per_epoch: how many steps an epoch has; None where the log does not say.
        epoch_time: how long the last epoch took.
        time_left: what `EstimatedTimeLeft` has logged last.
        settings: lines on how the run is set up.
        warnings: warnings and errors, with their times.
        last: the time of the last line.
    """

    command: str = ""
    began: str = ""
    state: str = "not begun"
    epoch: int = 0
    steps_per_epoch: int | None = None
    epoch_time: str = ""
    time_left: str = ""
    settings: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    last: str = ""


def read_log(directory: str) -> RunLog:
    """Return what the log in a directory tells; that of a run that has not begun where there is none."""
    log = RunLog()
    try:
        with open(os.path.join(directory, LOG_FILE), encoding="utf-8", errors="replace") as file:
            for line in file:
                # The last line may still be written.
                found = _LINE.match(line.rstrip("\n")) if line.endswith("\n") else None
                if found is not None:
                    log = _read_line(log, *found.groups())
    except FileNotFoundError:
        return log
    return log


def _read_line(log: RunLog, at: str, mark: str | None, text: str) -> RunLog:
    """Return what is known after another line."""
    if command := _COMMAND.match(text):
        log = RunLog(command=command[2], began=at)
    log.last = at
    if mark in ("WRN", "ERR"):
        log.warnings = [*log.warnings, f"{at} {text}"][-_MOST_LINES:]
    elif _SETTINGS.search(text) and log.state == "not begun":
        log.settings.append(text)
    _note_progress(log, text)
    return log


def _note_progress(log: RunLog, text: str) -> None:
    if steps := _EPOCH_STEPS.search(text):
        log.steps_per_epoch = int(steps[1])
    if start := _START.match(text):
        log.epoch, log.state = int(start[1]), "running"
    elif finished := _FINISHED.match(text):
        log.epoch, log.epoch_time = int(finished[1]), finished[3]
    elif left := _LEFT.match(text):
        log.time_left = left[1]
    elif text == _END:
        log.state = "finished"
    elif _ENDED.match(text):
        log.state = text
