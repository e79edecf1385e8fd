"""A data point as a few lines of text: types, shapes and ranges instead of all the numbers."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

_MAX_TEXT = 60


def describe_point(value: Any, max_depth: int = 3, max_list: int = 3) -> str:
    """Return a line for each component of a data point, and for what is nested in it.

    Args:
        value: the data point, or anything else.
        max_depth: how deep to go into lists, tuples and dicts; the point itself is the first level.
        max_list: how many elements of each to show.
    """
    return "\n".join(_lines("", value, max_depth, max_list))


def _lines(label: str, value: Any, depth: int, max_list: int) -> list[str]:
    """Return the lines of a value: one for itself, and the indented ones of what it holds."""
    lines = [f"{label}{_summary(value)}"]
    items = list(value.items()) if isinstance(value, Mapping) else []
    if isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    if not items or depth == 0:
        return lines
    for key, held in islice(items, max_list):
        lines += ["  " + line for line in _lines(f"{key!r}: ", held, depth - 1, max_list)]
    if len(items) > max_list:
        lines.append(f"  ... {len(items) - max_list} more")
    return lines


def _summary(value: Any) -> str:
    """Return one line about a value, without what it holds."""
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, shape {value.shape}{_range_of(value)}"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + '...'}"


def _range_of(array: np.ndarray) -> str:
    """Return the range of an array of numbers, and how many of them are none."""
    if array.dtype.kind not in "biuf" or array.size == 0:
        return ""
    if array.dtype.kind != "f":
        return f", {array.min()} to {array.max()}"
    finite = array[np.isfinite(array)]
    text = f", {finite.min():.4g} to {finite.max():.4g}" if finite.size else ""
    return text if finite.size == array.size else f"{text}, {array.size - finite.size} not finite"
