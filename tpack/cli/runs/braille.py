"""Curves in the dots of braille letters: each letter has two columns of four dots."""

import math
from collections.abc import Sequence

_EMPTY = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_COLUMNS, _ROWS = 2, 4


def curve_lines(values: Sequence[float], width: int, height: int) -> list[str]:
    """Return a curve as lines of letters, the highest first.

    Args:
        values: at equal distances; what is not finite is a gap.
        width: letters in a line.
        height: lines.
    """
    columns, rows = _COLUMNS * width, _ROWS * height
    finite = [value for value in values if math.isfinite(value)]
    cells = [[_EMPTY] * width for _ in range(height)]
    if finite:
        low, high = min(finite), max(finite)
        scale = (rows - 1) / (high - low) if high > low else 0.0
        before: int | None = None
        for column in range(columns if len(values) > 1 else 1):
            value = values[round(column * (len(values) - 1) / max(1, columns - 1))]
            row = round((value - low) * scale) if math.isfinite(value) else None
            for dot in _dots_between(before, row):
                cells[height - 1 - dot // _ROWS][column // _COLUMNS] |= _DOTS[column % _COLUMNS][
                    _ROWS - 1 - dot % _ROWS
                ]
            before = row
    return ["".join(map(chr, line)) for line in cells]


def _dots_between(before: int | None, row: int | None) -> range:
    """Return the dots of a column that join the value of the column before to that of this one."""
    if row is None:
        return range(0)
    if before is None or before == row:
        return range(row, row + 1)
    return range(before + 1, row + 1) if before < row else range(row, before)
