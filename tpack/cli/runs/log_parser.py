"""Warnings and times in the log of a run; the state of the run is in ``run.json``."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field

LOG_FILE = "log.log"

_LINE = re.compile(r"^\[(\d\d-\d\d \d\d:\d\d:\d\d) @[^\]]+\] (?:(WRN|ERR|DBG) )?(.*)$")
_MOST_LINES = 200


@dataclass
class RunLog:
    """The contents of a log, to which a resumed run appends.

    Attributes:
        warnings: the last 200 warnings and errors, with their times.
        last: the time of the last line.
    """

    warnings: list[str] = field(default_factory=list)
    last: str = ""


def read_log(directory: str) -> RunLog:
    """Return the contents of the log in a directory; empty without a log."""
    log = RunLog()
    path = os.path.join(directory, LOG_FILE)
    with suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            # The last line may be incomplete.
            found = _LINE.match(line.rstrip("\n")) if line.endswith("\n") else None
            if found is not None:
                log.last, mark, text = found.groups()
                if mark in ("WRN", "ERR"):
                    log.warnings = [*log.warnings, f"{log.last} {text}"][-_MOST_LINES:]
    return log
