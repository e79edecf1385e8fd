"""The command ``tpack``: parse arguments, run the command, and turn errors into messages and exit codes.

The module of a command is imported only when that command is used.
"""

import argparse
import importlib
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from tpack.errors import ConfigError, TpackError, WrongTypeError
from tpack.version import __version__

COMMANDS = {
    "average": ("average the weights of checkpoints", "average", "add_arguments"),
    "cluster": ("look at a cluster", "cluster", "add_arguments"),
    "data": ("measure where the time of a data flow goes", "data", "add_arguments"),
    "doctor": ("print what a bug report needs", "doctor", "add_arguments"),
    "inspect": ("list the variables in a checkpoint, or compare two", "inspect", "add_arguments"),
    "launch": ("run a script in several processes that train together", "launch", "add_arguments"),
    "migrate": ("rewrite sources of tensorpack and TensorFlow 1", "migrate", "add_arguments"),
    "plot": ("draw the curves of runs", "plot", "add_arguments"),
    "profile": ("tell where the time of a script's steps goes", "profile", "add_arguments"),
    "new": ("make a project that trains", "project", "add_new_arguments"),
    "train": ("train a project", "project", "add_train_arguments"),
    "predict": ("run a trained project on data", "predict_export", "add_predict_arguments"),
    "export": ("write a trained project for other programs", "predict_export", "add_export_arguments"),
    "run": ("run a script without the start-up lines of TensorFlow", "profile", "add_run_arguments"),
    "reduce": ("measure the ways to reduce gradients", "reduce", "add_arguments"),
    "scale": ("simulate a training on many workers", "scale", "add_arguments"),
    "selftest": ("prove that training works on this machine's devices, and how fast", "selftest", "add_arguments"),
    "watch": ("show runs on the terminal while they train", "watch", "add_arguments"),
}
"""The purpose of each command, its module, and the function in it that adds its arguments to a parser."""

_AS_HOROVODRUN = ["launch", "--as", "horovodrun"]

EXIT_FAILED = 1
EXIT_BAD_ARGUMENTS = 2

_STANDARD_ERROR = 2
_ALL, _BELOW_ERRORS = "IWE", "IW"
# Passes all lines on, each as soon as it is complete, except those of TensorFlow's logs: they begin with a level and a
# date, in the format of absl or of TensorFlow, or belong to such a line. Error 303 is that there is no driver of GPUs.
_FILTER = r"""
import re, sys
own = re.compile((
    r"[LEVELS]\d{4} \d\d:|[LEVELS]0000 00:00:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [LEVELS] "
    r"|WARNING: All log messages before absl::InitializeLog|To enable the following instructions:"
    r"|.*\bfailed call to cuInit: .*\(303\)"
).replace("LEVELS", sys.argv[1]).encode())
for line in sys.stdin.buffer:
    if not own.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""
_LAST_WORDS_SECS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: without the name of the program; by default those of the process.

    Returns:
        The exit code: 0; 1 if the command failed; 2 for invalid arguments; or the command's own.

    Raises:
        SystemExit: The arguments cannot be parsed (code 2), or ask for help or the version (code 0).
        WrongTypeError: The arguments are not a sequence of texts.
    """
    # By hand: `check_arguments` needs numpy, and help does not.
    is_sequence = isinstance(arguments, Sequence) and not isinstance(arguments, str | bytes)
    if arguments is not None and not (is_sequence and all(isinstance(each, str) for each in arguments)):
        raise WrongTypeError(f"main got arguments of type {type(arguments).__name__}: expected a sequence of texts")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:3] == _AS_HOROVODRUN:
        try:
            given = ["launch", *importlib.import_module("tpack.cli.launch").launch_arguments(given[3:])]
        except (ConfigError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            return EXIT_BAD_ARGUMENTS
        sys.stderr.write(f"tpack {shlex.join(given)}\n")
    options = _parser().parse_args(given)
    is_quiet = getattr(options, "loads_tensorflow", False)
    try:
        with without_lines_of_tensorflow(getattr(options, "keeps_errors", False)) if is_quiet else nullcontext():
            done: str | int = options.run(options)
    except (TpackError, OSError) as error:
        sys.stderr.write(f"tpack {options.command}: {error}\n")
        return EXIT_BAD_ARGUMENTS if isinstance(error, ConfigError) else EXIT_FAILED
    except MemoryError:
        sys.stderr.write(f"tpack {options.command}: there is not enough memory for its files\n")
        return EXIT_FAILED
    if isinstance(done, int):
        return done
    sys.stdout.write(done)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tpack", description="Data-parallel training with TensorFlow.")
    parser.add_argument("--version", action="version", version=f"tpack {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser)
    for name, (purpose, module, function) in COMMANDS.items():
        commands.add_parser(name, help=purpose, module=f"tpack.cli.{module}", function=function)
    return parser


class _CommandParser(argparse.ArgumentParser):
    """The parser of one command, which gets its arguments from the command's module on first use.

    Args:
        module: the name of the module.
        function: the function in it that adds the arguments.
        options: those of any parser.
    """

    def __init__(self, *, module: str, function: str, **options: Any) -> None:
        super().__init__(**options)
        self._home = module, function
        self._is_filled = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of the command."""
        if not self._is_filled:
            module, function = self._home
            getattr(importlib.import_module(module), function)(self)
            self._is_filled = True
        return super().parse_known_args(args, namespace)


@contextmanager
def without_lines_of_tensorflow(keeps_errors: bool = False) -> Iterator[None]:
    """Remove the log lines of TensorFlow's C++ code from this process's and its children's standard error.

    No setting of TensorFlow does that: of the 9 lines of an import of 2.21, ``TF_CPP_MIN_LOG_LEVEL=3`` leaves 6. In
    this process its Python warnings go too. Fatal lines stay, also as the last of this process, since another process
    filters. On a terminal Python writes directly, so that progress bars work.

    Args:
        keeps_errors: leave errors, but for that of a machine without GPUs, and Python's warnings.
    """
    original, before = os.dup(_STANDARD_ERROR), sys.stderr
    before.flush()
    on_terminal = os.fdopen(os.dup(original), "w", buffering=1, errors="backslashreplace") if before.isatty() else None
    # A session of its own protects it from the Ctrl-C that ends this process.
    command = [sys.executable, "-I", "-S", "-c", _FILTER, _BELOW_ERRORS if keeps_errors else _ALL]
    reading, writing = os.pipe()
    passing_on = subprocess.Popen(command, stdin=reading, stderr=original, start_new_session=True)
    os.dup2(writing, _STANDARD_ERROR)
    os.close(reading)
    os.close(writing)
    sys.stderr = on_terminal or before
    tensorflow = logging.getLogger("tensorflow")
    if not keeps_errors:
        tensorflow.addFilter(_is_error)
    try:
        yield
    finally:
        tensorflow.removeFilter(_is_error)
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(original, _STANDARD_ERROR)
        os.close(original)
        if on_terminal is not None:
            on_terminal.close()
        # A remaining child may keep its end open forever.
        with suppress(subprocess.TimeoutExpired):
            passing_on.wait(_LAST_WORDS_SECS)


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
