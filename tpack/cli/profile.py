"""``tpack run`` and ``tpack profile``: run a training script unchanged, and report the parts of its steps' time.

For the report the training gets a `tpack.Profile`. When it is finished, the process ends, as if by ``sys.exit``.
"""

import argparse
import importlib
import os
import runpy
import sys
import traceback
from typing import TYPE_CHECKING, Any

from tpack.errors import ConfigError
from tpack.legacy.as_tensorpack import run_script

if TYPE_CHECKING:
    from tpack.callbacks.profiling.profile import Profile

_EXIT_FAILED = _EXIT_NOTHING_TRACED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = "Run a training script, trace a few steps, tell where their time and memory go, and end it."
    parser.add_argument(
        "--steps", nargs=2, type=int, default=[10, 15], metavar=("FIRST", "LAST"), help="(default: 10 15)"
    )
    parser.add_argument("--out", metavar="DIR", help="where to write; the script's log directory unless given")
    parser.add_argument("--go-on", action="store_true", help="train on when the steps are traced")
    parser.add_argument("script", metavar="SCRIPT", help="what to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    parser.set_defaults(run=run, loads_tensorflow=True)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``tpack run``, and add its arguments to its parser."""
    parser.description = "Run a script as python does, without the lines that TensorFlow logs below errors."
    parser.add_argument("script", metavar="SCRIPT", help="what to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    parser.set_defaults(run=run_quietly, loads_tensorflow=True, keeps_errors=True)


def run_quietly(options: argparse.Namespace) -> int:
    """Run the script like ``python SCRIPT``; return 0, or 1 after an exception, whose traceback is printed.

    Raises:
        ConfigError: The script does not exist.
        SystemExit: The script ended this way.
    """
    _check_script(options.script)
    try:
        return run_script([options.script, *options.arguments], "", lambda: None)
    except Exception:
        traceback.print_exc()
        return _EXIT_FAILED


def _check_script(script: str) -> None:
    if not os.path.isfile(script):
        raise ConfigError(f"SCRIPT got {script!r}: expected a file")


def run(options: argparse.Namespace) -> int:
    """Run the script like ``python SCRIPT``; return 0, or 1 if it ended before a step was traced.

    Raises:
        ConfigError: The script does not exist, or the steps are invalid.
        SystemExit: The script ended this way.
    """
    _check_script(options.script)
    # TensorFlow is loaded here, not for help.
    profiling = importlib.import_module("tpack.callbacks.profiling.profile")
    adding = importlib.import_module("tpack.train.trainer")
    logger = importlib.import_module("tpack.utils.logger")
    kind: Any = profiling.Profile
    if not options.go_on:
        # The process ends when everything is written.
        kind = type("Profile", (kind,), {"_is_finished": _leave, "__doc__": kind.__doc__})
    made: list[Profile] = []

    def make() -> "Profile":
        # A script without a log directory gets a directory of this name.
        directory = options.out or (None if logger.get_logger_dir() else "profile")
        made.append(kind(options.steps, directory=directory))
        return made[-1]

    kind(options.steps)
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    with adding.adding_callback(make):
        try:
            runpy.run_path(options.script, run_name="__main__")
        except SystemExit:
            if not any(profile.times for profile in made):
                raise
    if any(profile.times for profile in made):
        return 0
    sys.stderr.write("tpack profile: no training of the script has reached the steps to trace\n")
    return _EXIT_NOTHING_TRACED


def _leave(profile: "Profile") -> None:
    del profile
    raise SystemExit(0)
