"""Things that should happen once in a process, however often their line is reached."""

import functools
import sys
import threading

from tpack.errors import ConfigError
from tpack.utils import logger

__all__ = ["execute_only_once", "log_once"]

_LEVELS = {
    "debug": logger.debug,
    "info": logger.info,
    "warn": logger.warn,
    "warning": logger.warning,
    "error": logger.error,
    "critical": logger.critical,
}
_LOCK = threading.Lock()
_executed: set[tuple[str, int]] = set()


def execute_only_once() -> bool:
    """Return True to the first call from a line of code, and False to later calls from it.

    Example:
        ``if execute_only_once(): logger.info("...")``
    """
    # The frame of the caller.
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    with _LOCK:
        if place in _executed:
            return False
        _executed.add(place)
        return True


def log_once(message: str, func: str = "info") -> None:
    """Log a message, unless the same was logged by this function before.

    Args:
        message: the line.
        func: the function of the logger to use: ``"debug"``, ``"info"``, ``"warning"``, ``"error"`` or ``"critical"``.

    Raises:
        ConfigError: There is no such function.
    """
    if func not in _LEVELS:
        raise ConfigError(f"log_once got func={func!r}: wanted one of {', '.join(_LEVELS)}")
    _log_new(message, func)


@functools.cache
def _log_new(message: str, func: str) -> None:
    """Log a message; the cache keeps a second call away. The record names the caller of ``log_once``."""
    _LEVELS[func](message, stacklevel=3)
