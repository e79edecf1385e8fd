"""Durations in words."""

import math

from tpack.errors import ConfigError

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


def humanize_time_delta(sec: float) -> str:
    """Return a duration in words, such as ``"1 hour 2 minutes 3 seconds"``.

    From a minute on, seconds are whole; below it they have up to three significant digits.

    Args:
        sec: seconds, at least 0.

    Raises:
        ConfigError: The number is negative or not finite.
    """
    if not math.isfinite(sec) or sec < 0:
        raise ConfigError(f"a duration of {sec} seconds: wanted a finite number of at least 0")
    if sec < 59.95:
        return _count(f"{sec:.3g}", "second")
    rest, parts = round(sec), []
    for unit, size in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(_count(str(number), unit))
    if rest:
        parts.append(_count(str(rest), "second"))
    return " ".join(parts)


def _count(number: str, unit: str) -> str:
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"
