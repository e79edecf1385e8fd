"""Send statistics to a shell command, which gets quoted values and never stops the training."""

from __future__ import annotations

import os
import shlex
import signal
import string
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import CallbackError, ConfigError
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_number


@check_arguments
class _CommandSender(Callback):
    """The base of callbacks that run a shell command with statistics."""

    def __init__(self, command: str, names: str | Sequence[str], *, timeout_secs: float = 60) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._template = CommandTemplate(command, self._names)
        self._timeout_secs = check_number(self, "timeout_secs", timeout_secs, 0, is_low_allowed=False)

    def _send(self, values: Mapping[str, float]) -> None:
        run_command(self._template.fill(values), self._timeout_secs)


class SendStat(_CommandSender):
    """Run a shell command with the latest values of statistics, when triggered.

    It is triggered after the callbacks that report. A failing command is only logged. Until all statistics are
    reported, nothing runs.

    Args:
        command: the command, with ``{name}`` in place of a value. ``{name:.3f}`` formats it; ``{{`` is a brace.
        names: the statistics, one name or several.
        timeout_secs: the time limit of the command, during which training waits.

    Raises:
        ConfigError: the command cannot be parsed, or uses a name that is not in ``names``.

    Example:
        ``SendStat("notify-send 'error is {val_error}'", "val_error")``
    """

    reads_statistics = True

    def _trigger(self) -> None:
        try:
            values = {name: self.trainer.monitors.get_latest(name) for name in self._names}
        except CallbackError as error:
            logger.warning(f"{self} sends nothing yet: {error}")
            return
        self._send(values)


class SendMonitorData(_CommandSender, MonitorBase):
    """Run a shell command after each epoch with the scalars reported in it.

    If one of them is missing, nothing runs. A failing command is only logged.

    Args:
        command: as for `SendStat`.
        names: the statistics, one name or several.
        timeout_secs: the time limit of the command, during which training waits.

    Raises:
        ConfigError: the command cannot be parsed, or uses a name that is not in ``names``.
    """

    _values: Mapping[str, float] = MappingProxyType({})
    _has_warned = False

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the value until the end of the epoch."""
        if name in self._names:
            self._values = {**self._values, name: val}

    def _trigger(self) -> None:
        values, self._values = self._values, {}
        missing = [name for name in self._names if name not in values]
        if not missing:
            self._send(values)
        elif not self._has_warned:
            logger.warning(f"{self} sends nothing in epoch {self.epoch_num}: {', '.join(missing)} did not come.")
            self._has_warned = True


class CommandTemplate:
    """A shell command with ``{name}`` in place of values, which are quoted for the shell.

    Names may contain slashes and dots. ``{name:.3f}`` formats the value, ``{{`` is one brace.

    Args:
        command: the template.
        names: the names that get values.

    Raises:
        ConfigError: the template cannot be parsed, or uses another name.
    """

    def __init__(self, command: str, names: Sequence[str]) -> None:
        self._command = command
        try:
            used = {field for _, field, _, _ in string.Formatter().parse(command) if field is not None}
        except ValueError as error:
            raise ConfigError(f"the command {command!r} cannot be read as a template: {error}") from error
        unknown = sorted(used - set(names))
        if unknown:
            raise ConfigError(f"the command {command!r} uses {', '.join(unknown)}: expected names of {list(names)}")

    def fill(self, values: Mapping[str, float]) -> str:
        """Return the command with the values in it."""
        return _QuotingFormatter().vformat(self._command, (), values)


class _QuotingFormatter(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, str]:
        # The whole field is the name, including dots.
        return kwargs[field_name], field_name

    def format_field(self, value: object, format_spec: str) -> str:
        return shlex.quote(format(value, format_spec))


def run_command(command: str, timeout_secs: float) -> None:
    """Run a shell command; log a failure or a timeout, at which it is killed.

    Args:
        command: for ``/bin/sh``.
        timeout_secs: the time limit.
    """
    # A new session, so that the shell's children are killed with it.
    with subprocess.Popen(command, shell=True, start_new_session=True) as process:
        try:
            code = process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            logger.error(f"Command {command!r} did not end within {timeout_secs:g} seconds and was killed.")
            return
    if code != 0:
        logger.error(f"Command {command!r} failed with exit code {code}.")
