"""Read a statistic as it grows, for callbacks that are triggered more or less often than it is reported."""

from __future__ import annotations

from typing import Any

from tpack.errors import CallbackError
from tpack.utils import logger


class StatisticReader:
    """Tells what a statistic got since it was asked last.

    Args:
        reader: the callback that reads, which is set up before it reads.
        name: the statistic.
    """

    def __init__(self, reader: Any, name: str) -> None:
        self._reader = reader
        self._name = name
        self._num_seen = 0
        self._has_warned = False

    def new_values(self) -> list[float]:
        """Return the values since the last call, oldest first; a statistic that was never reported is told once."""
        try:
            history = self._reader.trainer.monitors.get_history(self._name)
        except CallbackError as error:
            if not self._has_warned:
                logger.warning(f"{self._reader} has nothing to go by yet: {error}")
                self._has_warned = True
            return []
        new, self._num_seen = history[self._num_seen :], len(history)
        return new
