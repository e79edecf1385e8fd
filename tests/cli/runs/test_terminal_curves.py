import math

import pytest

from tpack.cli.runs.terminal import curve_lines


def dots(lines):
    """Return the dots of a picture as pairs of column and row, the lowest row 0."""
    places = {
        0x01: (0, 3),
        0x02: (0, 2),
        0x04: (0, 1),
        0x40: (0, 0),
        0x08: (1, 3),
        0x10: (1, 2),
        0x20: (1, 1),
        0x80: (1, 0),
    }
    return {
        (2 * x + column, 4 * (len(lines) - 1 - y) + row)
        for y, line in enumerate(lines)
        for x, letter in enumerate(line)
        for bit, (column, row) in places.items()
        if (ord(letter) - 0x2800) & bit
    }


def test_a_straight_line_rises_by_one_dot_a_column():
    assert dots(curve_lines([0, 1, 2, 3, 4, 5, 6, 7], 4, 2)) == {(k, k) for k in range(8)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], set()),
        ([math.nan, math.inf], set()),
        ([5.0], {(0, 0)}),
        ([2.0, 2.0], {(0, 0), (1, 0)}),
        ([0.0, 9.0], {(0, 0), (1, 1), (1, 2), (1, 3)}),
    ],
)
def test_few_values(values, expected):
    assert dots(curve_lines(values, 1, 1)) == expected


def test_what_is_not_finite_is_a_gap():
    assert dots(curve_lines([0, math.nan, 3, 3], 2, 1)) == {(0, 0), (2, 3), (3, 3)}
