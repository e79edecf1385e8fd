"""Data points as text."""

import numpy as np
import pytest

from tpack.dataflow.inspect import describe_point


def test_every_component_has_a_line():
    point = [np.arange(6, dtype="u1").reshape(2, 3), 3, "name", {"k": [1.5]}]
    assert describe_point(point, max_list=9).split("\n") == [
        "list of 4",
        "  0: array of uint8, shape (2, 3), 0 to 5",
        "  1: int 3",
        "  2: str 'name'",
        "  3: dict of 1",
        "    'k': list of 1",
        "      0: float 1.5",
    ]


def test_depth_and_length_are_limited():
    assert describe_point([[[1, 2]], 3, 4, 5], max_depth=2, max_list=2).split("\n") == [
        "list of 4",
        "  0: list of 1",
        "    0: list of 2",
        "  1: int 3",
        "  ... 2 more",
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((0, 2)), "array of float64, shape (0, 2)"),
        (np.array([0.5, np.nan, -1]), "array of float64, shape (3,), -1 to 0.5, 1 not finite"),
        (np.array([np.inf]), "array of float64, shape (1,), 1 not finite"),
        (np.array(["a"]), "array of <U1, shape (1,)"),
        (np.array([True]), "array of bool, shape (1,), True to True"),
    ],
)
def test_range_is_told_where_there_is_one(array, expected):
    assert describe_point(array) == expected


def test_long_text_is_cut():
    assert describe_point("x" * 1000) == "str 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
