"""Data points that a flow keeps back, as a part of its state.

A flow that shuffles in a buffer cannot get the points in it again: they are from many places of the wrapped flow. They
are then put into the state themselves, as bytes.
"""

from collections.abc import Sequence
from typing import Any

from tpack.dataflow.state import StatelessError
from tpack.errors import DataPointError, InputError
from tpack.utils import serialize


def freeze_points(owner: Any, points: Sequence[Any]) -> bytes:
    """Turn data points into bytes.

    Args:
        owner: the flow that keeps them, for the message.
        points: the data points.

    Raises:
        StatelessError: A data point is made of what cannot be serialized.
    """
    try:
        return serialize.dumps([[isinstance(point, tuple), point] for point in points])
    except DataPointError as error:
        raise StatelessError(
            f"{type(owner).__name__} cannot tell its position, with the data points that it keeps back: {error}"
        ) from error


def thaw_points(owner: Any, frozen: Any) -> list[Any]:
    """Turn bytes from ``freeze_points`` back into data points.

    Raises:
        InputError: They are something else.
    """
    message = f"the state of a {type(owner).__name__} holds no data points where it should"
    if not isinstance(frozen, bytes):
        raise InputError(f"{message}, but a {type(frozen).__name__}")
    try:
        return [tuple(point) if is_tuple else point for is_tuple, point in serialize.loads(frozen)]
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{message}: {error}") from error
