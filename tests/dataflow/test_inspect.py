"""Data points as text, and the flow that logs the first of them."""

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.inspect import PrintData, describe_point
from tpack.errors import ConfigError


def test_first_points_after_a_reset_are_logged_and_all_are_yielded(capsys):
    ds = PrintData(Counting(5), num=2)
    ds.reset_state()
    assert len(list(ds)) == len(list(ds)) == 5
    text = capsys.readouterr().err
    assert text.count("Data point") == 2
    assert "Data point 1 of Counting: list of 2\n  0: int 1\n  1: str '1'" in text
    ds.reset_state()
    list(ds)
    assert capsys.readouterr().err.count("Data point") == 2


def test_name_depth_and_length_can_be_chosen(capsys):
    list(PrintData(Counting(5), name="train", max_depth=1, max_list=1))
    assert "Data point 0 of train: list of 2\n  0: int 0\n  ... 1 more" in capsys.readouterr().err


@pytest.mark.parametrize("numbers", [{"num": 0}, {"max_depth": 0}, {"max_list": 0}])
def test_bad_number_is_refused(numbers):
    with pytest.raises(ConfigError, match="PrintData got .*=0: expected an integer of at least 1"):
        PrintData(Counting(), **numbers)


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
