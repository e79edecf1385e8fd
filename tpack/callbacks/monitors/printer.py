"""Statistics as lines of the log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tpack.callbacks.monitors.base import MonitorBase
from tpack.utils import logger


class ScalarPrinter(MonitorBase):
    """Log the scalars that came since the last time, sorted by name.

    Args:
        enable_step: log after each step that reported something.
        enable_epoch: log after each epoch.
        whitelist: regular expressions; only names that match one at their beginning are logged. All unless given.
        blacklist: regular expressions; names that match one at their beginning are not logged.
    """

    def __init__(
        self,
        enable_step: bool = False,
        enable_epoch: bool = True,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] | None = None,
    ) -> None:
        self._logs_steps = enable_step
        self._logs_epochs = enable_epoch
        self._whitelist = [re.compile(pattern) for pattern in ([""] if whitelist is None else whitelist)]
        self._blacklist = [re.compile(pattern) for pattern in blacklist or ()]
        self._values: dict[str, float] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Remember the value until it is logged."""
        is_wanted = any(pattern.match(name) for pattern in self._whitelist)
        if is_wanted and not any(pattern.match(name) for pattern in self._blacklist):
            self._values[name] = val

    def _trigger_step(self) -> None:
        self._log()

    def _trigger(self) -> None:
        if self._logs_epochs:
            self._log()

    def _log(self) -> None:
        for name, value in sorted(self._values.items()):
            logger.info(f"{name}: {value:.5g}")
        self._values.clear()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything."""
        if hook == "trigger_step":
            return self._logs_steps
        return super().implements(hook)
