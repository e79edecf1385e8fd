"""The command ``tpack``: reads the arguments, runs what they ask for, and turns errors into messages and exit codes."""

import argparse
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from tpack.cli import average, cluster, doctor, inspect, launch, plot, profile, project, reduce, watch
from tpack.errors import ConfigError, TpackError
from tpack.utils.argument_types import check_arguments
from tpack.version import __version__

EXIT_FAILED = 1
EXIT_BAD_ARGUMENTS = 2

_STANDARD_ERROR = 2
# A level, then a date: as absl and the log of TensorFlow begin a line; and the lines that belong to such ones.
_TOLD_BY_TENSORFLOW = re.compile(
    rb"[IWE]\d{4} \d\d:|[IWE]0000 00:00:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] "
    rb"|WARNING: All log messages before absl::InitializeLog|To enable the following instructions:"
)


@check_arguments
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: without the name of the program; by default those of the process.

    Returns:
        The exit code: 0; 1 if the command failed; 2 if its arguments cannot work; or that of the command's own.

    Raises:
        SystemExit: The arguments cannot be read (code 2), or help or the version was asked for (code 0).
    """
    options = _parser().parse_args(arguments)
    is_quiet = getattr(options, "loads_tensorflow", False)
    try:
        with without_lines_of_tensorflow() if is_quiet else nullcontext():
            done: str | int = options.run(options)
    except TpackError as error:
        sys.stderr.write(f"tpack {options.command}: {error}\n")
        return EXIT_BAD_ARGUMENTS if isinstance(error, ConfigError) else EXIT_FAILED
    except OSError as error:
        sys.stderr.write(f"tpack {options.command}: {error}\n")
        return EXIT_FAILED
    if isinstance(done, int):
        return done
    sys.stdout.write(done)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tpack", description="Data-parallel training with TensorFlow.")
    parser.add_argument("--version", action="version", version=f"tpack {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    average.add_command(commands)
    cluster.add_command(commands)
    doctor.add_command(commands)
    inspect.add_command(commands)
    launch.add_command(commands)
    plot.add_command(commands)
    profile.add_command(commands)
    project.add_command(commands)
    reduce.add_command(commands)
    watch.add_command(commands)
    return parser


@contextmanager
def without_lines_of_tensorflow() -> Iterator[None]:
    """Leave out of this process's and its children's standard error the lines that TensorFlow's C++ code logs.

    Fatal ones stay. What fails comes as an exception, and is told by who calls.
    """
    original = os.dup(_STANDARD_ERROR)
    reading, writing = os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    thread = threading.Thread(target=_pass_on, args=(reading, original), name="tpack-quiet", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.dup2(original, _STANDARD_ERROR)
        # A child that is left may keep its end open for ever.
        thread.join(1.0)
        if not thread.is_alive():
            os.close(original)


def _pass_on(reading: int, original: int) -> None:
    with open(reading, "rb") as lines:
        for line in lines:
            if not _TOLD_BY_TENSORFLOW.match(line):
                os.write(original, line)
