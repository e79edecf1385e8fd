"""Tell somebody outside about statistics, by any command of the shell."""

from __future__ import annotations

from collections.abc import Sequence

from tpack.callbacks.base import Callback
from tpack.callbacks.shell_command import CommandTemplate, run_command
from tpack.errors import CallbackError
from tpack.utils import logger


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
        self._timeout_secs = timeout_secs

    def _trigger(self) -> None:
        try:
            values = {name: self.trainer.monitors.get_latest(name) for name in self._names}
        except CallbackError as error:
            logger.warning(f"{self} sends nothing yet: {error}")
            return
        run_command(self._template.fill(values), self._timeout_secs)
