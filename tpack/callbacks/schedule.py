"""A number as a function of time, given by a few points of it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from tpack.errors import ConfigError

INTERPOLATIONS = (None, "linear")


class Schedule:
    """Values at points of time, and between them.

    Args:
        points: (point, value) pairs in any order. Points are integers, each there once.
        interp: ``"linear"`` for a straight line between two points, None to keep the value until the next point.

    Raises:
        ConfigError: there are no points, one cannot be read or is there twice, or ``interp`` is not known.
    """

    def __init__(self, points: Iterable[tuple[int, float]], interp: str | None = None) -> None:
        if interp not in INTERPOLATIONS:
            raise ConfigError(f"interp must be None or 'linear', got {interp!r}")
        pairs = sorted(map(_checked, points))
        self._points = [point for point, _ in pairs]
        self._values = [value for _, value in pairs]
        self._interpolates = interp is not None
        if not pairs:
            raise ConfigError("a schedule wants at least one (point, value) pair, got none")
        if len(set(self._points)) < len(pairs):
            raise ConfigError(f"a schedule has one value at each point, got {pairs}")

    def value_at(self, point: int) -> float | None:
        """Return what holds at ``point``; None before the first point. After the last one its value stays."""
        before = bisect.bisect_right(self._points, point) - 1
        if before < 0:
            return None
        start, value = self._points[before], self._values[before]
        if not self._interpolates or start == point or before + 1 == len(self._points):
            return value
        end, next_value = self._points[before + 1], self._values[before + 1]
        return value + (next_value - value) * (point - start) / (end - start)

    def change_at(self, point: int) -> float | None:
        """Return the value that is to be set at ``point``; None where nothing changes."""
        is_between = self._interpolates and self._points[0] <= point <= self._points[-1]
        return self.value_at(point) if is_between or point in self._points else None


def _checked(pair: tuple[int, float]) -> tuple[int, float]:
    try:
        point, value = pair
        if int(point) != point:
            raise ValueError
        return int(point), float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a schedule holds (integer, number) pairs, got {pair!r}") from error
