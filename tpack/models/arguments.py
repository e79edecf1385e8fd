"""Checks of what a layer is given, whose errors name the layer; and the forms that sizes and padding are taken in.

A layer that has variables must know the number of channels while the graph is built.
"""

from collections.abc import Sequence
from numbers import Real
from typing import SupportsIndex, TypeAlias, TypeGuard

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import CHANNELS_LAST, channel_axis
from tpack.utils.argtools import get_data_format, shape2d
from tpack.utils.validation import is_integer, mismatch

PaddingLike: TypeAlias = str | int | Sequence[int | Sequence[int]]
"""A rule, or numbers of rows and columns; `parse_padding` says in which forms."""
Units: TypeAlias = SupportsIndex | float | tf.Dimension
"""A whole number; 32.0 is one, since scripts that were written for Python 2 divide by ``/``, and so is a dimension."""
Padding: TypeAlias = str | list[list[int]]
"""``"SAME"``, ``"VALID"``, or ``[[top, bottom], [left, right]]``."""


def layer_name(kind: str) -> str:
    """Return what messages call the layer that is being built: its kind, and the current variable scope.

    Args:
        kind: the name of its function.
    """
    scope = tf.get_variable_scope().name
    return f"{kind} {scope!r}" if scope else kind


def check_rank(kind: str, inputs: tf.Tensor, *ranks: int) -> int:
    """Return the rank of a layer's input if it is one of those that the layer takes.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input.
        *ranks: the ranks that it may have.

    Raises:
        ConfigError: It has another rank, or an unknown one.
    """
    rank = inputs.shape.rank
    if rank not in ranks:
        wanted = " or ".join(f"{r}" for r in ranks)
        raise ConfigError(
            f"{layer_name(kind)} got an input of shape {inputs.shape} ({inputs.name}): expected {wanted} dimensions"
        )
    return int(rank)


def check_sizes(kind: str, argument: str, sizes: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width of a kernel, window or stride.

    Args:
        kind: the name of the layer's function, for the message.
        argument: what the layer calls them.
        sizes: one number for both, or two.

    Raises:
        ConfigError: They are not one or two integers, or not positive.
    """
    try:
        height, width = shape2d(sizes)
    except ConfigError as error:
        raise ConfigError(mismatch(layer_name(kind), argument, sizes, "one or two integers")) from error
    if height < 1 or width < 1:
        raise ConfigError(mismatch(layer_name(kind), argument, sizes, "positive integers"))
    return height, width


def check_floating(kind: str, inputs: tf.Tensor) -> tf.DType:
    """Return the dtype of a layer's input, which its variables will have too.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input.

    Raises:
        ConfigError: It is not a floating-point dtype.
    """
    dtype = inputs.dtype.base_dtype
    if not dtype.is_floating:
        raise ConfigError(
            f"{layer_name(kind)} wants a floating-point input, got {dtype.name} ({inputs.name}): cast it before"
        )
    return dtype


def static_channels(kind: str, inputs: tf.Tensor, data_format: str = CHANNELS_LAST) -> int:
    """Return the number of channels of a layer's input.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input, of known rank.
        data_format: where the channels are.

    Raises:
        ConfigError: The number is unknown while the graph is built.
    """
    axis = channel_axis(data_format, inputs.shape.rank)
    channels = tf.compat.dimension_value(inputs.shape[axis])
    if channels is None:
        raise ConfigError(
            f"{layer_name(kind)} wants a known number of channels, the size of dimension {axis} "
            f"({get_data_format(data_format)}), got shape {inputs.shape} ({inputs.name}): say it with set_shape, or in "
            "the input signature"
        )
    return int(channels)


def check_units(kind: str, argument: str, units: Units) -> int:
    """Return a number of outputs.

    Args:
        kind: the name of the layer's function, for the message.
        argument: what the layer calls the number.
        units: the number.

    Raises:
        ConfigError: It is no whole number, or not positive.
    """
    number = None if isinstance(units, bool) else units.__index__() if hasattr(units, "__index__") else units
    if not isinstance(number, Real) or not float(number).is_integer() or number < 1:
        raise ConfigError(mismatch(layer_name(kind), argument, units, "a positive whole number"))
    return int(float(number))


def parse_rule(kind: str, padding: str) -> str:
    """Return ``"SAME"`` or ``"VALID"``.

    Args:
        kind: the name of the layer's function, for the message.
        padding: one of the two in any case.

    Raises:
        ConfigError: It is neither.
    """
    rule = padding.upper() if isinstance(padding, str) else None
    if rule not in ("SAME", "VALID"):
        raise ConfigError(mismatch(layer_name(kind), "padding", padding, "'same' or 'valid'"))
    return str(rule)


def parse_padding(kind: str, padding: PaddingLike, *, channels_first: bool) -> Padding:
    """Return a rule, or the padding of height and width in numbers.

    Args:
        kind: the name of the layer's function, for the message.
        padding: ``"same"`` or ``"valid"`` in any case, one number for all four sides, ``[vertical, horizontal]``,
            ``[[top, bottom], [left, right]]``, or a pair for each of the four dimensions of the input.
        channels_first: the order of the dimensions, for the last form.

    Raises:
        ConfigError: It is none of these, or pads batch or channels.
    """
    if isinstance(padding, str):
        return parse_rule(kind, padding)
    numbers: object = [padding, padding] if _is_size(padding) else padding
    if isinstance(numbers, Sequence) and len(numbers) == 4 and all(map(_is_pair, numbers)):
        numbers = _spatial(numbers, channels_first)
    if isinstance(numbers, Sequence) and len(numbers) == 2:
        pairs = [[n, n] if _is_size(n) else n for n in numbers]
        if all(map(_is_pair, pairs)):
            return [[int(n) for n in pair] for pair in pairs]
    expected = "'same', 'valid', a number, [vertical, horizontal] or [[top, bottom], [left, right]]"
    raise ConfigError(mismatch(layer_name(kind), "padding", padding, expected))


def _spatial(pairs: Sequence[Sequence[int]], channels_first: bool) -> Sequence[Sequence[int]] | None:
    """Return the pairs of height and width, or None if other dimensions are to be padded."""
    batch, channels = pairs[0], pairs[1 if channels_first else 3]
    if any(batch) or any(channels):
        return None
    return pairs[2:] if channels_first else pairs[1:3]


def _is_size(value: object) -> TypeGuard[int]:
    # A size that was computed may be a numpy integer.
    return is_integer(value) and value >= 0


def _is_pair(value: object) -> TypeGuard[Sequence[int]]:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(_is_size, value))
