"""What several flows that run workers ask of their arguments."""

import math
from collections.abc import Callable
from typing import Any

from tpack.errors import ConfigError


def check_timeout(owner: Any, timeout: Any) -> float | None:
    """Return a time to wait for a worker.

    Raises:
        ConfigError: It is neither None nor a positive number.
    """
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout < math.inf):
        raise ConfigError(f"{type(owner).__name__} got timeout={timeout!r}: wanted a number of seconds, or None")
    return timeout


def check_map_func(owner: Any, map_func: Any) -> Callable[[Any], Any]:
    """Return a function that is to be called with data points.

    Raises:
        ConfigError: It cannot be called.
    """
    if not callable(map_func):
        raise ConfigError(f"{type(owner).__name__} got map_func={map_func!r}: wanted a function of one argument")
    return map_func
