"""Statistics in a shell command: filled in, quoted, and run without ever stopping the training."""

from __future__ import annotations

import os
import shlex
import signal
import string
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.utils import logger


class CommandTemplate:
    """A shell command with ``{name}`` where values go.

    A name may hold slashes and dots. ``{name:.3f}`` formats the value, ``{{`` stands for one brace. A value is quoted
    for the shell.

    Args:
        command: the template.
        names: the names that values will be given for.

    Raises:
        ConfigError: the template cannot be read, or uses another name.
    """

    def __init__(self, command: str, names: Sequence[str]) -> None:
        self._command = command
        try:
            used = {field for _, field, _, _ in string.Formatter().parse(command) if field is not None}
        except ValueError as error:
            raise ConfigError(f"the command {command!r} cannot be read as a template: {error}") from error
        unknown = sorted(used - set(names))
        if unknown:
            raise ConfigError(f"the command {command!r} uses {', '.join(unknown)}, and the names are {list(names)}")

    def fill(self, values: Mapping[str, Any]) -> str:
        """Return the command with the values in it."""
        return _QuotingFormatter().vformat(self._command, (), values)


class _QuotingFormatter(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        # The whole field is the name: a dot is part of it and no attribute.
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        return shlex.quote(format(value, format_spec))


def run_command(command: str, timeout_secs: float) -> None:
    """Run a shell command and log it when it fails or takes too long, in which case it is killed.

    Args:
        command: for ``/bin/sh``.
        timeout_secs: how long to wait for it.
    """
    # A session of its own, so that what the shell started can be killed with it.
    with subprocess.Popen(command, shell=True, start_new_session=True) as process:
        try:
            code = process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            logger.error(f"Command {command!r} did not end within {timeout_secs:g} seconds and was killed.")
            return
    if code != 0:
        logger.error(f"Command {command!r} failed with exit code {code}.")
