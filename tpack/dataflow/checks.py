"""Checks of arguments that several flows share."""

from typing import Any

import numpy as np

from tpack.errors import ConfigError


def check_at_least(owner: Any, name: str, value: Any, minimum: int = 1) -> int:
    """Return ``value`` as an integer.

    Args:
        owner: whose argument it is, for the message.
        name: the argument.
        value: its value.
        minimum: the least value that is allowed.

    Raises:
        ConfigError: It is no integer, or less than the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise ConfigError(f"{type(owner).__name__} got {name}={value!r}: wanted an integer of at least {minimum}")
    return int(value)
