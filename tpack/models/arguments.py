"""Checks of layers' arguments, with errors that name the layer, and the accepted forms of sizes and padding.

A layer with variables needs a known number of channels when the graph is built. In all functions here ``kind`` is the
name of the layer's function, for the message, and ``argument`` the layer's name of the value.
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
    """Return the layer that is being built as messages show it: its kind, and the current variable scope."""
    scope = tf.get_variable_scope().name
    return f"{kind} {scope!r}" if scope else kind


def layer_error(kind: str, argument: str, value: object, expected: str, use: str = "") -> ConfigError:
    """Return the error of an argument of the layer that is being built."""
    return ConfigError(mismatch(layer_name(kind), argument, value, expected, use))


def check_rank(kind: str, inputs: tf.Tensor, *ranks: int) -> int:
    """Return the rank of a layer's input.

    Raises:
        ConfigError: It is none of ``ranks``, or unknown.
    """
    rank = inputs.shape.rank
    if rank not in ranks:
        expected = f"{' or '.join(map(str, ranks))} dimensions"
        raise ConfigError(
            f"{layer_name(kind)} got an input of shape {inputs.shape} ({inputs.name}): expected {expected}"
        )
    return int(rank)


def check_sizes(kind: str, argument: str, sizes: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width of a kernel, window or stride, given as one number for both or as two.

    Raises:
        ConfigError: They are not one or two positive integers.
    """
    try:
        height, width = shape2d(sizes)
    except ConfigError as error:
        raise layer_error(kind, argument, sizes, "one or two integers") from error
    if height < 1 or width < 1:
        raise layer_error(kind, argument, sizes, "positive integers")
    return height, width


def check_floating(kind: str, inputs: tf.Tensor) -> tf.DType:
    """Return the dtype of a layer's input, which is also that of its variables.

    Raises:
        ConfigError: It is not a floating-point dtype.
    """
    dtype = inputs.dtype.base_dtype
    if not dtype.is_floating:
        raise ConfigError(
            f"{layer_name(kind)} got an input of {dtype.name} ({inputs.name}): expected floating-point; use tf.cast"
        )
    return dtype


def static_channels(kind: str, inputs: tf.Tensor, data_format: str = CHANNELS_LAST) -> int:
    """Return the number of channels of a layer's input of known rank.

    Raises:
        ConfigError: The number is unknown when the graph is built.
    """
    axis = channel_axis(data_format, inputs.shape.rank)
    channels = tf.compat.dimension_value(inputs.shape[axis])
    if channels is None:
        raise ConfigError(
            f"{layer_name(kind)} got an input of shape {inputs.shape} ({inputs.name}): expected a known number of "
            f"channels, dimension {axis} ({get_data_format(data_format)}); use set_shape or the input signature"
        )
    return int(channels)


def check_units(kind: str, argument: str, units: Units) -> int:
    """Return a number of outputs.

    Raises:
        ConfigError: It is not a positive whole number.
    """
    number = None if isinstance(units, bool) else units.__index__() if hasattr(units, "__index__") else units
    if not isinstance(number, Real) or not float(number).is_integer() or number < 1:
        raise layer_error(kind, argument, units, "a positive whole number")
    return int(float(number))


def parse_rule(kind: str, padding: str) -> str:
    """Return ``"SAME"`` or ``"VALID"``, given in any case.

    Raises:
        ConfigError: It is neither.
    """
    rule = padding.upper() if isinstance(padding, str) else None
    if rule not in ("SAME", "VALID"):
        raise layer_error(kind, "padding", padding, "'same' or 'valid'")
    return str(rule)


def parse_padding(kind: str, padding: PaddingLike, *, channels_first: bool) -> Padding:
    """Return a rule, or the padding of height and width in numbers.

    Args:
        kind: the name of the layer's function.
        padding: ``"same"`` or ``"valid"`` in any case, one number for all four sides, ``[vertical, horizontal]``,
            ``[[top, bottom], [left, right]]``, or a pair for each of the input's four dimensions.
        channels_first: the order of the dimensions in the last form.

    Raises:
        ConfigError: It has another form, or pads batch or channels.
    """
    if isinstance(padding, str):
        return parse_rule(kind, padding)
    numbers: object = [padding, padding] if _is_size(padding) else padding
    if isinstance(numbers, Sequence) and len(numbers) == 4 and all(map(_is_pair, numbers)):
        batch, channels = numbers[0], numbers[1 if channels_first else 3]
        spatial = numbers[2:] if channels_first else numbers[1:3]
        numbers = None if any(batch) or any(channels) else spatial
    if isinstance(numbers, Sequence) and len(numbers) == 2:
        pairs = [[n, n] if _is_size(n) else n for n in numbers]
        if all(map(_is_pair, pairs)):
            return [[int(n) for n in pair] for pair in pairs]
    expected = "'same', 'valid', a number, [vertical, horizontal] or [[top, bottom], [left, right]]"
    raise layer_error(kind, "padding", padding, expected)


def _is_size(value: object) -> TypeGuard[int]:
    return is_integer(value) and value >= 0


def _is_pair(value: object) -> TypeGuard[Sequence[int]]:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(_is_size, value))
