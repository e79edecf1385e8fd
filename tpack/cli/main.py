"""The command ``tpack``: reads the arguments, runs what they ask for, and turns errors into messages and exit codes."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from tpack.cli import cluster, inspect, launch, plot, reduce
from tpack.cli.quiet import without_lines_of_tensorflow
from tpack.errors import ConfigError, TpackError
from tpack.utils.argument_types import check_arguments
from tpack.version import __version__

EXIT_FAILED = 1
EXIT_BAD_ARGUMENTS = 2


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
    cluster.add_command(commands)
    inspect.add_command(commands)
    launch.add_command(commands)
    plot.add_command(commands)
    reduce.add_command(commands)
    return parser
