"""``tpack selftest``: prove that training works on this machine's devices, and measure how fast.

The child process of `tpack.selftest.runner` loads TensorFlow, this one does not; see docs/selftest.md.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tpack.cli.plot import check_format, save_figure
from tpack.errors import ConfigError
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import LazyModule, import_optional

_report = LazyModule("tpack.selftest.report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Train on the GPUs of this machine, or on logical CPU devices where there is none, with each trainer and "
        "reducer, compare with one tower, measure copies, all-reduces and images a second, and print a report for an "
        "issue. It needs neither data nor network. The exit code is 0 only if all is right."
    )
    parser.add_argument(
        "--devices",
        type=int,
        metavar="N",
        help="the first N GPUs (default: all), or N logical CPU devices (default: 4)",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="checks whose names begin so")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which no check starts (default: %(default)g)"
    )
    parser.add_argument("--check-limit", type=float, metavar="SECS", help="the time limit of each check")
    parser.add_argument("--json", metavar="FILE", help="also write all figures")
    parser.add_argument("--out", metavar="FILE", help="also draw a picture: .png, .svg or .pdf")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the checks and print the report; return 0 if all is right, else 1.

    Raises:
        ConfigError: A number is not positive, no check has such a name, or the format of the picture is unknown.
        DependencyError: A picture is requested and matplotlib is not installed.
    """
    runner = importlib.import_module("tpack.selftest.runner")
    _check(options, runner.names_of_checks())
    machine, outcomes = runner.run_selftest(
        options.devices, only=options.only, limit_secs=options.limit, check_secs=options.check_limit, report=_progress()
    )
    sys.stdout.write(_report.text_of(machine, outcomes))
    if options.json is not None:
        with atomic_write(options.json) as file:
            file.write(_report.json_of(machine, outcomes))
    if options.out is not None:
        save_figure(_report.draw(outcomes), options.out)
    return 0 if runner.all_is_right(outcomes) else 1


def _check(options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in ("devices", "limit", "check_limit"):
        number = getattr(options, name)
        if number is not None and not number > 0:
            raise ConfigError(f"--{name.replace('_', '-')} got {number}: expected a number above 0")
    for beginning in options.only:
        if not any(name.startswith(beginning) or beginning.startswith("images") for name in names):
            raise ConfigError(f"--only got {beginning!r}: expected the beginning of {', '.join(names)}")
    if options.out is not None:
        check_format(options.out)
        import_optional("matplotlib.figure", "plot")


def _progress() -> Callable[[Any, int, int], None]:
    """Return a function that prints a line for each outcome."""

    def show(outcome: Any, number: int, total: int) -> None:
        told = f" {outcome.text}" if outcome.result == "wrong" else ""
        sys.stderr.write(f"[{number}/{total}] {outcome.name}: {outcome.result}, {outcome.secs:.1f} s{told}\n")
        sys.stderr.flush()

    return show
