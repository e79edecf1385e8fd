"""Statistics given to a shell command as they come."""

from __future__ import annotations

from collections.abc import Sequence

from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.shell_command import CommandTemplate, run_command
from tpack.utils import logger


class SendMonitorData(MonitorBase):
    """Run a shell command with the scalars that came in an epoch, after it.

    In an epoch in which one of them did not come, nothing is run. A command that fails is logged and disturbs nothing.

    Args:
        command: the command, with ``{name}`` where a value goes. ``{name:.3f}`` formats it; a brace is written twice.
        names: the statistics, one name or several.
        timeout_secs: how long training waits for the command.

    Raises:
        ConfigError: the command cannot be read, or uses a name that is not in ``names``.
    """

    def __init__(self, command: str, names: str | Sequence[str], *, timeout_secs: float = 60) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._template = CommandTemplate(command, self._names)
        self._timeout_secs = timeout_secs
        self._values: dict[str, float] = {}
        self._has_warned = False

    def process_scalar(self, name: str, val: float) -> None:
        """Remember the value until the end of the epoch."""
        if name in self._names:
            self._values[name] = val

    def _trigger(self) -> None:
        values, self._values = self._values, {}
        missing = [name for name in self._names if name not in values]
        if not missing:
            run_command(self._template.fill(values), self._timeout_secs)
        elif not self._has_warned:
            logger.warning(f"{self} sends nothing in epoch {self.epoch_num}: {', '.join(missing)} did not come.")
            self._has_warned = True
