"""What each statistic was, in memory, for the callbacks that act on it."""

from __future__ import annotations

from difflib import get_close_matches

from tpack.callbacks.monitors.base import MonitorBase
from tpack.errors import CallbackError


class ScalarHistory(MonitorBase):
    """Keep every value of every scalar, in the order in which they came."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Append the value to its history."""
        self._values.setdefault(name, []).append(val)

    def get_history(self, name: str) -> list[float]:
        """Return all values of a statistic, oldest first.

        Raises:
            CallbackError: nobody reported such a statistic.
        """
        if name not in self._values:
            near = get_close_matches(name, self._values) or sorted(self._values)
            known = f"near names: {', '.join(near)}" if near else "there are none yet"
            raise CallbackError(f"no statistic named '{name}' was reported; {known}")
        return list(self._values[name])

    def get_latest(self, name: str) -> float:
        """Return the last value of a statistic.

        Raises:
            CallbackError: nobody reported such a statistic.
        """
        return self.get_history(name)[-1]
