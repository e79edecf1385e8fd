"""``tpack plot``: draw the curves of one or several runs from what they wrote to ``stat.json``."""

import argparse
import os
from typing import Any

from tpack.cli.curves import AXES, choose_stats, read_runs
from tpack.cli.figure import draw
from tpack.errors import ConfigError
from tpack.utils.fs import atomic_write

_FORMATS = (".png", ".svg", ".pdf")
_DOTS_PER_INCH = 110


def add_command(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    parser = commands.add_parser(
        "plot",
        help="draw the curves of runs",
        description="Draw the statistics of one or several runs, a panel for each statistic and a colour for each run.",
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="log directories, or stat.json files")
    parser.add_argument("--stats", nargs="+", default=[], metavar="NAME", help="which; all that change unless given")
    parser.add_argument(
        "--axis", choices=sorted(AXES), default="epoch", help="what to draw over (default: %(default)s)"
    )
    parser.add_argument(
        "--out", default="curves.png", help=f"the file to write, one of {', '.join(_FORMATS)} (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Draw what the options ask for into a file.

    Args:
        options: those that `add_command` defines.

    Returns:
        What was written, as text.

    Raises:
        ConfigError: A directory has no statistics, there is no statistic of a name, or the file's format is unknown.
        CallbackError: A file of statistics is damaged.
        DependencyError: matplotlib is not installed.
    """
    file_format = os.path.splitext(options.out)[1].lower()
    if file_format not in _FORMATS:
        raise ConfigError(f"wanted a file that ends in one of {', '.join(_FORMATS)}, got {options.out!r}")
    runs = read_runs(options.directories)
    stats = choose_stats(runs, options.stats)
    figure = draw(runs, stats, options.axis)
    with atomic_write(options.out, "wb") as file:
        figure.savefig(file, format=file_format[1:], dpi=_DOTS_PER_INCH)
    return f"{options.out}: {len(stats)} statistic(s) of {len(runs)} run(s)\n"
