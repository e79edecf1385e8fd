"""Tell somebody outside about statistics, by any command of the shell.

A command's template is filled in with values that are quoted for the shell, and running it never stops the training.
"""

from __future__ import annotations

import os
import shlex
import signal
import string
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_number


@check_arguments
class SendStat(Callback):
    """Run a shell command with the latest values of statistics, when triggered.

    It is triggered after the callbacks that report statistics. A command that fails is logged and disturbs nothing. As
    long as a statistic was not reported yet, nothing is run.

    Args:
        command: the command, with ``{name}`` where a value goes. ``{name:.3f}`` formats it; a brace is written twice.
        names: the statistics, one name or several.
        timeout_secs: how long training waits for the command.

    Raises:
        ConfigError: the command cannot be read, or uses a name that is not in ``names``.

    Example:
        ``SendStat("notify-send 'error is {val_error}'", "val_error")``
    """

    reads_statistics = True

    def __init__(self, command: str, names: str | Sequence[str], *, timeout_secs: float = 60) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._template = CommandTemplate(command, self._names)
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, 0, is_low_allowed=False)

    def _trigger(self) -> None:
        try:
            values = {name: self.trainer.monitors.get_latest(name) for name in self._names}
        except CallbackError as error:
            logger.warning(f"{self} sends nothing yet: {error}")
            return
        run_command(self._template.fill(values), self._timeout_secs)


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

    def fill(self, values: Mapping[str, float]) -> str:
        """Return the command with the values in it."""
        return _QuotingFormatter().vformat(self._command, (), values)


class _QuotingFormatter(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, str]:
        # The whole field is the name: a dot is part of it and no attribute.
        return kwargs[field_name], field_name

    def format_field(self, value: object, format_spec: str) -> str:
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
