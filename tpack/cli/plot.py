"""``tpack plot``: draw the curves of runs from their ``stats.json``, or schedules.

Each statistic has a panel, each run a colour. The figure is made without ``pyplot``, so that no backend is chosen and
no window opens; and without TensorFlow.
"""

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tpack.callbacks.monitors import stats_file
from tpack.cli.runs.html_report import page_of
from tpack.cli.runs.remote import RunDirectories, is_shown, run_directories
from tpack.cli.runs.terminal import printable
from tpack.errors import ConfigError
from tpack.schedules import parse_schedule
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import import_optional

_FORMATS = (".png", ".svg", ".pdf")
_DOTS_PER_INCH = 110
_AXES = {"epoch": "epoch_num", "step": "global_step"}
"""The axes of curves, and their names in the file."""

# The colours of Okabe and Ito: distinct for colour-blind readers, and dark enough on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Runs beyond the colours differ by the style of their lines.
STYLES = ("-", "--", ":", "-.")

INK, FAINT = "#333333", "#D9D9D9"
_PANEL_INCHES = (4.2, 2.7)
_MARK_INCHES, _LETTER_INCHES = 0.6, 0.085
_MAX_COLUMNS = 3
_MOST_PANELS = 300
_MAX_MARKED_POINTS = 40
_SCHEDULE = "value"
# Beyond it, sums inside of matplotlib are not finite.
_MOST = 1e300
_POINTS_OF_SCHEDULE = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Draw the statistics of one or several runs, a panel for each statistic and a colour for each run."
    )
    parser.add_argument(
        "directories", nargs="*", metavar="DIR", help="log directories, URLs of them, or stats.json files"
    )
    parser.add_argument(
        "--schedule",
        action="append",
        default=[],
        metavar="TEXT",
        help="draw a schedule instead, such as 'WarmUp(Cosine(0.1, 0, 85), 5)'; may be given several times",
    )
    parser.add_argument("--stats", nargs="+", default=[], metavar="NAME", help="which; all that change unless given")
    parser.add_argument(
        "--axis", choices=sorted(_AXES), default="epoch", help="what to draw over (default: %(default)s)"
    )
    parser.add_argument(
        "--html", action="store_true", help="write one page with curves to zoom, settings, warnings and images"
    )
    parser.add_argument(
        "--out", help=f"the file to write, one of {', '.join(_FORMATS)} (default: curves.png, or curves.html)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Draw into a file; return a note of the result.

    Raises:
        ConfigError: A directory has no statistics, a statistic or the file's format is unknown, or a schedule is
            invalid.
        CallbackError: A file of statistics is damaged.
        DependencyError: matplotlib is not installed.
        RemoteError: Remote storage cannot be read.
    """
    if options.html:
        return _write_page(options)
    options.out = options.out or "curves.png"
    check_format(options.out)
    if bool(options.directories) == bool(options.schedule):
        got = "both" if options.schedule else "neither"
        raise ConfigError(f"tpack plot got {got} of directories and --schedule: expected one")
    if options.schedule:
        runs, stats, told = _schedules(options.schedule, options.axis), [_SCHEDULE], "schedule(s)"
    else:
        with run_directories(options.directories) as directories:
            runs = _read_runs(options.directories, directories)
        stats = _choose_stats(runs, options.stats)
        told = f"statistic(s) of {len(runs)} run(s)"
    if len(stats) > _MOST_PANELS:
        raise ConfigError(
            f"the runs have {len(stats)} statistics: expected at most {_MOST_PANELS} to draw; use --stats"
        )
    figure = _draw(runs, stats, options.axis)
    save_figure(figure, options.out)
    return f"{options.out}: {len(runs if options.schedule else stats)} {told}\n"


def _write_page(options: argparse.Namespace) -> str:
    if options.schedule or not options.directories:
        raise ConfigError("--html got no directories, or --schedule: expected directories of runs alone")
    out = options.out or "curves.html"
    if not out.lower().endswith((".html", ".htm")):
        raise ConfigError(f"--out got {out!r}: expected a file that ends in .html")
    with run_directories(options.directories, is_shown) as directories:
        runs = _read_runs(options.directories, directories)
        stats = _choose_stats(runs, options.stats)
        text = page_of({run.label: (run.directory, run.entries) for run in runs}, stats, options.axis)
    with atomic_write(out) as file:
        file.write(text)
    return f"{out}: {len(stats)} statistic(s) of {len(runs)} run(s)\n"


def check_format(path: str) -> str:
    """Return the format of a picture by its file's suffix.

    Raises:
        ConfigError: The format is unknown.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        raise ConfigError(f"--out got {path!r}: expected a file that ends in one of {', '.join(_FORMATS)}")
    return suffix[1:]


def save_figure(figure: Any, path: str) -> None:
    """Write a ``matplotlib.figure.Figure`` to a file, completely or not at all.

    Raises:
        ConfigError: The format is unknown.
    """
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=check_format(path), dpi=_DOTS_PER_INCH)


@dataclass(frozen=True)
class _Run:
    """The reported statistics of one run.

    Attributes:
        label: a unique name.
        entries: dictionaries of statistics, one for each report.
        directory: the run's; empty for a schedule.
    """

    label: str
    entries: list[dict[str, Any]]
    directory: str = ""

    def curve(self, stat: str, axis: str) -> tuple[list[float], list[float]]:
        """Return the points of a statistic over ``"epoch"`` or ``"step"``; NaN, a gap, where it is infinite or huge."""
        points = [(e[_AXES[axis]], e[stat]) for e in self.entries if _is_number(e.get(stat)) and _AXES[axis] in e]
        return [float(x) for x, _ in points], [float(y) if abs(y) < _MOST else math.nan for _, y in points]

    def stats(self) -> list[str]:
        """Return the sorted names of all numeric statistics."""
        names = {name for entry in self.entries for name, value in entry.items() if _is_number(value)}
        return sorted(names - set(_AXES.values()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _read_runs(given: Sequence[str], directories: RunDirectories) -> list[_Run]:
    """Read the ``stats.json`` of several runs; ``given`` are their names for messages.

    Raises:
        ConfigError: A directory has no statistics.
        CallbackError: A file is damaged.
    """
    runs, paths = [], directories.paths
    for path, directory, label in zip(given, paths, short_labels(paths), strict=True):
        entries = stats_file.read_entries(directory)
        if not entries:
            raise ConfigError(f"{path} has no {stats_file.FILENAME} with statistics: expected the directory of a run")
        runs.append(_Run(label, entries, directory))
    return runs


def _schedules(texts: Sequence[str], axis: str) -> list[_Run]:
    """Return schedules as runs that have one statistic."""
    schedules = [parse_schedule(text) for text in texts]
    end = 1.05 * max(schedule.length for schedule in schedules) or 1.0
    even = (end * k / _POINTS_OF_SCHEDULE for k in range(_POINTS_OF_SCHEDULE + 1))
    last = math.ceil(max(schedule.length for schedule in schedules))
    # Both sides of jumps at whole epochs or steps.
    near = (k - side for k in range(1, last + 1 if last <= _POINTS_OF_SCHEDULE else 1) for side in (1e-6, 0.0))
    points = sorted({*even, *near})
    return [
        _Run(text, [{_AXES[axis]: point, _SCHEDULE: schedule.value_at(point)} for point in points])
        for text, schedule in zip(texts, schedules, strict=True)
    ]


def short_labels(directories: Sequence[str]) -> list[str]:
    """Return the shortest distinct ends of absolute paths, in whole parts; numbered where paths are equal."""
    parts = [os.path.normpath(directory).split(os.sep) for directory in directories]
    for length in range(1, max(map(len, parts), default=1) + 1):
        ends = ["/".join(part[-length:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [f"{number} {part[-1]}" for number, part in enumerate(parts, 1)]


def _choose_stats(runs: Sequence[_Run], wanted: Sequence[str]) -> list[str]:
    """Return the statistics to draw: those of ``wanted``, or by default all that change, or all if none does, sorted.

    Raises:
        ConfigError: A name is unknown; similar ones are listed. Or there are no statistics.
    """
    known = list(dict.fromkeys(name for run in runs for name in run.stats()))
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=5)
            hint = f"near names: {', '.join(near)}" if near else f"there are: {', '.join(known)}"
            raise ConfigError(f"no run has the statistic {name!r}; {hint}")
    if wanted:
        return list(dict.fromkeys(wanted))
    if not known:
        raise ConfigError("the runs have no statistics to draw")
    # Statistics of parts, such as an input source's queue, come after those of the model.
    known.sort(key=lambda name: ("/" in name, name.lower()))
    changing = [name for name in known if any(len(set(run.curve(name, "step")[1])) > 1 for run in runs)]
    return changing or known


def _draw(runs: Sequence[_Run], stats: Sequence[str], axis: str) -> Any:
    """Return a ``matplotlib.figure.Figure`` with a panel for each statistic.

    Raises:
        DependencyError: matplotlib is not installed.
    """
    figure_class = import_optional("matplotlib.figure", "plot").Figure
    columns = min(len(stats), _MAX_COLUMNS)
    rows = -(-len(stats) // columns)
    width = columns * _PANEL_INCHES[0]
    longest = max(len(run.label) for run in runs)
    names_beside = max(1, min(len(runs), int(width / (_MARK_INCHES + _LETTER_INCHES * longest))))
    legend_inches = 0.25 + 0.2 * -(-len(runs) // names_beside) if len(runs) > 1 else 0.0
    size = (width, rows * _PANEL_INCHES[1] + legend_inches)
    figure = figure_class(figsize=size, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.07)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for position, (panel, stat) in enumerate(zip(panels, stats, strict=False)):
        _draw_panel(panel, runs, stat, axis)
        if position + columns >= len(stats):
            panel.set_xlabel(axis, color=INK, fontsize=9)
    for panel in panels[len(stats) :]:
        panel.set_axis_off()
    _name_runs(figure, runs, names_beside)
    return figure


def _draw_panel(panel: Any, runs: Sequence[_Run], stat: str, axis: str) -> None:
    ticker = import_optional("matplotlib.ticker", "plot")
    for index, run in enumerate(runs):
        x, y = run.curve(stat, axis)
        colour, style = COLOURS[index % len(COLOURS)], STYLES[index // len(COLOURS) % len(STYLES)]
        marker = "o" if len(x) <= _MAX_MARKED_POINTS else None
        line: dict[str, Any] = {"linewidth": 1.6, "marker": marker, "markersize": 2.8, "label": run.label}
        panel.plot(x, y, color=colour, linestyle=style, **line)
    panel.set_title(printable(stat), loc="left", fontsize=10, color=INK, fontweight="bold")
    panel.grid(color=FAINT, linewidth=0.6)
    panel.set_axisbelow(True)
    panel.margins(x=0.02, y=0.08)
    panel.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
    panel.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5))
    panel.tick_params(labelsize=8, colors=INK, length=0)
    for side, spine in panel.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def _name_runs(figure: Any, runs: Sequence[_Run], names_beside: int) -> None:
    """Name the runs: by a title for one, by a legend above the panels for several."""
    if len(runs) == 1:
        figure.suptitle(runs[0].label, fontsize=11, color=INK, x=0.01, ha="left")
        return
    # matplotlib leaves out labels with a leading underscore.
    handles, names = figure.axes[0].get_lines(), [f" {run.label}" for run in runs]
    place: dict[str, Any] = {"loc": "outside upper left", "ncols": names_beside}
    figure.legend(handles, names, **place, frameon=False, fontsize=9, labelcolor=INK)
