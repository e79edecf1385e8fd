"""The curves of runs: which statistics each reported, and when."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tpack.callbacks.monitors.json_writer import JSONWriter
from tpack.errors import ConfigError

AXES = {"epoch": "epoch_num", "step": "global_step"}
"""What curves can be drawn over, and what it is called in the file."""


@dataclass(frozen=True)
class Run:
    """What one run reported.

    Attributes:
        label: what it is called, unlike the other runs.
        entries: dictionaries of statistics, one for each time that something was reported.
    """

    label: str
    entries: list[dict[str, Any]]

    def curve(self, stat: str, axis: str) -> tuple[list[float], list[float]]:
        """Return the points of a statistic over ``"epoch"`` or ``"step"``; what is not finite is a NaN, a gap."""
        points = [(e[AXES[axis]], e[stat]) for e in self.entries if _is_number(e.get(stat)) and AXES[axis] in e]
        return [float(x) for x, _ in points], [float(y) if math.isfinite(y) else math.nan for _, y in points]

    def stats(self) -> list[str]:
        """Return the names of all statistics that are numbers, sorted."""
        names = {name for entry in self.entries for name, value in entry.items() if _is_number(value)}
        return sorted(names - set(AXES.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def read_runs(paths: Sequence[str]) -> list[Run]:
    """Read the ``stat.json`` of several runs.

    Args:
        paths: directories, or the files themselves.

    Raises:
        ConfigError: There is none, or it has no entries.
        CallbackError: A file is damaged.
    """
    directories = [os.path.abspath(os.path.dirname(p) if os.path.isfile(p) else p) for p in paths]
    runs = []
    for path, directory, label in zip(paths, directories, labels(directories), strict=True):
        entries = JSONWriter.load_existing_json(directory)
        if not entries:
            raise ConfigError(
                f"wanted the directory of a run, with statistics in {JSONWriter.FILENAME}: {path} has none"
            )
        runs.append(Run(label, entries))
    return runs


def labels(directories: Sequence[str]) -> list[str]:
    """Return the shortest ends of paths that differ from one another, whole parts each; numbered where paths are equal.

    Args:
        directories: absolute paths.
    """
    parts = [os.path.normpath(directory).split(os.sep) for directory in directories]
    for length in range(1, max(map(len, parts), default=1) + 1):
        ends = ["/".join(part[-length:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [f"{number} {part[-1]}" for number, part in enumerate(parts, 1)]


def choose_stats(runs: Sequence[Run], wanted: Sequence[str]) -> list[str]:
    """Return the statistics to draw.

    Args:
        runs: whose.
        wanted: their names; empty for all that changed in some run, or all if none did, sorted.

    Raises:
        ConfigError: No run has one of the names; near names are listed. Or there are no statistics at all.
    """
    known = list(dict.fromkeys(name for run in runs for name in run.stats()))
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=5)
            raise ConfigError(
                f"no run has the statistic {name!r}"
                + (f"; near names: {', '.join(near)}" if near else f"; there are: {', '.join(known)}")
            )
    if wanted:
        return list(dict.fromkeys(wanted))
    if not known:
        raise ConfigError("the runs have no statistics to draw")
    # What belongs to a part, such as an input source's queue, comes after what belongs to the model.
    known.sort(key=lambda name: ("/" in name, name.lower()))
    changing = [name for name in known if any(len(set(run.curve(name, "step")[1])) > 1 for run in runs)]
    return changing or known
