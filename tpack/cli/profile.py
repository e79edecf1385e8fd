"""``tpack profile``: run a training script as it is, and tell where the time of its steps goes.

The script's training gets a `tpack.Profile`. When that has written all, the process ends, as if by ``sys.exit``.
"""

import argparse
import importlib
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any

from tpack.errors import ConfigError

if TYPE_CHECKING:
    from tpack.callbacks.profiling.profile import Profile

_EXIT_NOTHING_TOLD = 1


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


def run(options: argparse.Namespace) -> int:
    """Run the script as ``python SCRIPT`` would.

    Args:
        options: those that `add_arguments` defines.

    Returns:
        0, or 1 if the script ended and no step was traced.

    Raises:
        ConfigError: There is no such script, or the steps cannot be.
        SystemExit: The script has ended so.
    """
    if not os.path.isfile(options.script):
        raise ConfigError(f"expected a script to run, and {options.script!r} is no file")
    # TensorFlow is loaded only here: help is there at once without it.
    profiling = importlib.import_module("tpack.callbacks.profiling.profile")
    adding = importlib.import_module("tpack.train.trainer")
    kind = profiling.Profile if options.go_on else _leaving(profiling.Profile)
    made: list[Profile] = []

    def make() -> "Profile":
        made.append(kind(options.steps, directory=options.out or _without_log_directory()))
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
    sys.stderr.write("tpack profile: no training of the script has come to the steps that were to be traced\n")
    return _EXIT_NOTHING_TOLD


def _without_log_directory() -> str | None:
    """Return where to write if the script sets no log directory; None if it has set one."""
    logger = importlib.import_module("tpack.utils.logger")
    return None if logger.get_logger_dir() else "profile"


def _leaving(kind: Any) -> Any:
    """Return a kind of `Profile` that ends the process when all is written."""
    return type("Profile", (kind,), {"_is_finished": _leave, "__doc__": kind.__doc__})


def _leave(profile: "Profile") -> None:
    del profile
    raise SystemExit(0)
