"""Times: a stopwatch, one operation, totals; and durations in words."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.renames import on_unknown_name
from tpack.utils.stats import StatCounter
from tpack.utils.validation import check_arguments, mismatch

__getattr__ = on_unknown_name(__name__)

__all__ = ["Timer", "print_total_timer", "timed_operation", "total_timer"]


Clock: TypeAlias = Callable[[], float]

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))
# The process's totals of total_timer, by message.
_totals: dict[str, StatCounter] = {}


class Timer:
    """A stopwatch that starts when it is made.

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
        """Stop the watch; do nothing if it is stopped."""
        self._before, self._start = self.seconds(), None

    def resume(self) -> None:
        """Restart the watch; do nothing if it runs."""
        if self._start is None:
            self._start = self._clock()

    def is_paused(self) -> bool:
        """Tell whether the watch is stopped."""
        return self._start is None

    def seconds(self) -> float:
        """Return the seconds without the pauses."""
        return self._before + (0.0 if self._start is None else self._clock() - self._start)


@contextmanager
def timed_operation(msg: str, log_start: bool = False) -> Iterator[None]:
    """Log the time of a ``with`` block that ends without an exception.

    Args:
        msg: the name of the block.
        log_start: log its start too.
    """
    if log_start:
        logger.info("Start %s ...", msg)
    timer = Timer()
    yield
    logger.info("%s finished, time: %.4f sec.", msg, timer.seconds())


@contextmanager
def total_timer(msg: str) -> Iterator[None]:
    """Add the time of a ``with`` block to the total under ``msg``, for ``print_total_timer``."""
    timer = Timer()
    yield
    _totals.setdefault(msg, StatCounter()).feed(timer.seconds())


def print_total_timer() -> None:
    """Log the totals of all ``total_timer`` blocks, if any."""
    for msg, total in _totals.items():
        logger.info("%s: %.4f sec in total, %d times, %.4f sec each time", msg, total.sum, total.count, total.average)


@check_arguments
def humanize_time_delta(sec: float) -> str:
    """Return a duration in words, such as ``"1 hour 2 minutes 3 seconds"``.

    Seconds are whole from a minute on, and have up to three significant digits below.

    Args:
        sec: seconds, at least 0.

    Raises:
        ConfigError: The number is negative or not finite.
    """
    if not math.isfinite(sec) or sec < 0:
        raise ConfigError(mismatch("humanize_time_delta", "sec", sec, "a finite number of at least 0"))
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
