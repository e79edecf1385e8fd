"""How a convolution pads its input: by a rule, or by numbers that are given."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import layer_name

Padding = str | list[list[int]]
"""``"SAME"``, ``"VALID"``, or ``[[top, bottom], [left, right]]``."""


def parse_rule(kind: str, padding: Any) -> str:
    """Return ``"SAME"`` or ``"VALID"``.

    Args:
        kind: the name of the layer's function, for the message.
        padding: one of the two in any case.

    Raises:
        ConfigError: It is neither.
    """
    rule = padding.upper() if isinstance(padding, str) else None
    if rule not in ("SAME", "VALID"):
        raise ConfigError(f"{layer_name(kind)} wants padding 'same' or 'valid', got {padding!r}")
    return str(rule)


def parse_padding(kind: str, padding: Any, *, channels_first: bool) -> Padding:
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
    numbers = [padding, padding] if _is_size(padding) else padding
    if isinstance(numbers, Sequence) and len(numbers) == 4 and all(map(_is_pair, numbers)):
        numbers = _spatial(numbers, channels_first)
    if isinstance(numbers, Sequence) and len(numbers) == 2:
        pairs = [[n, n] if _is_size(n) else n for n in numbers]
        if all(map(_is_pair, pairs)):
            return [[int(n) for n in pair] for pair in pairs]
    raise ConfigError(
        f"{layer_name(kind)} wants padding 'same', 'valid', a number, [vertical, horizontal] or [[top, bottom], [left, "
        f"right]], got {padding!r}"
    )


def pad(x: Any, pairs: Sequence[Sequence[int]], data_format: str) -> Any:
    """Pad a feature map with zeros.

    Args:
        x: the feature map.
        pairs: ``[[top, bottom], [left, right]]``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
    """
    none = [0, 0]
    return tf.pad(x, [none, none, *pairs] if data_format == "NCHW" else [none, *pairs, none])


def _spatial(pairs: Sequence[Any], channels_first: bool) -> Any:
    """Return the pairs of height and width, or None if other dimensions are to be padded."""
    batch, channels = pairs[0], pairs[1 if channels_first else 3]
    if any(batch) or any(channels):
        return None
    return pairs[2:] if channels_first else pairs[1:3]


def _is_size(value: Any) -> bool:
    # A size that was computed may be a numpy integer.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_pair(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(_is_size, value))
