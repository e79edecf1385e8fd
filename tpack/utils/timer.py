"""How long things take: a stopwatch, one operation, totals over many; and durations in words."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.stats import StatCounter
from tpack.utils.validation import check_arguments

__all__ = ["Timer", "print_total_timer", "timed_operation", "total_timer"]


Clock: TypeAlias = Callable[[], float]

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))
# By message, over the life of the process: what total_timer measured and print_total_timer prints.
_totals: dict[str, StatCounter] = {}


class Timer:
    """A stopwatch, which runs from the moment it is made.

    Args:
        clock: returns the time in seconds from any origin.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Start again from 0."""
        self._before = 0.0
        self._start: float | None = self._clock()

    def pause(self) -> None:
        """Stop the watch until ``resume``; do nothing if it stands."""
        self._before, self._start = self.seconds(), None

    def resume(self) -> None:
        """Let the watch go on; do nothing if it runs."""
        if self._start is None:
            self._start = self._clock()

    def is_paused(self) -> bool:
        """Tell whether the watch stands."""
        return self._start is None

    def seconds(self) -> float:
        """Return the seconds that it ran, without the pauses."""
        return self._before + (0.0 if self._start is None else self._clock() - self._start)


@contextmanager
def timed_operation(msg: str, log_start: bool = False) -> Iterator[None]:
    """Log how long a ``with`` block took, if it ends without an exception.

    Args:
        msg: what the block does.
        log_start: whether to log its start too.
    """
    if log_start:
        logger.info("Start %s ...", msg)
    timer = Timer()
    yield
    logger.info("%s finished, time: %.4f sec.", msg, timer.seconds())


@contextmanager
def total_timer(msg: str) -> Iterator[None]:
    """Add the time of a ``with`` block to the total under ``msg``, which ``print_total_timer`` logs."""
    timer = Timer()
    yield
    _totals.setdefault(msg, StatCounter()).feed(timer.seconds())


def print_total_timer() -> None:
    """Log the totals of all ``total_timer`` blocks so far; do nothing if there was none."""
    for msg, total in _totals.items():
        logger.info("%s: %.4f sec in total, %d times, %.4f sec each time", msg, total.sum, total.count, total.average)


@check_arguments
def humanize_time_delta(sec: float) -> str:
    """Return a duration in words, such as ``"1 hour 2 minutes 3 seconds"``.

    From a minute on, seconds are whole; below it they have up to three significant digits.

    Args:
        sec: seconds, at least 0.

    Raises:
        ConfigError: The number is negative or not finite.
    """
    if not math.isfinite(sec) or sec < 0:
        raise ConfigError(f"a duration of {sec} seconds: expected a finite number of at least 0")
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
