"""Numbers of steps, as people write them."""

import numbers
from typing import Any

from tpack.errors import ConfigError


def number_of_steps(name: str, value: Any) -> int | None:
    """Return a number of steps as an integer, and None for None.

    Args:
        name: what it is called in the message.
        value: an integer, or a float such as 1e4.

    Shapes:
        No tensors.

    Raises:
        ConfigError: It is something else, or not positive.

    Source:
        Written for tpack.
    """
    if value is None:
        return None
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if is_number else 0.0
    if not number.is_integer() or number <= 0:
        raise ConfigError(f"{name} must be positive, and a whole number, got {value!r}")
    return int(number)
