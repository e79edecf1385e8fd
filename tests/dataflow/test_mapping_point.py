"""Data points whose components are read and replaced."""

import pytest

from tpack.dataflow.mapping import Point
from tpack.errors import DataPointError


@pytest.mark.parametrize(
    ("point", "index", "expected"),
    [([1, 2], 1, [1, 9]), ((1, 2), 0, [9, 2]), ([1, 2], -1, [1, 9]), ({"a": 1, "b": 2}, "b", {"a": 1, "b": 9})],
)
def test_component_is_read_and_replaced_in_a_copy(point, index, expected):
    before = point.copy() if hasattr(point, "copy") else point
    assert Point(0, point).get(index) == point[index]
    assert Point(0, point).replace({index: 9}) == expected
    assert point == before


@pytest.mark.parametrize(
    ("point", "index", "message"),
    [
        ([1, 2], 2, "data point 7 has no component 2: it has 2 components"),
        ([1, 2], "a", "data point 7 has no component 'a': it has 2 components"),
        ({"a": 1, "b": 2}, "c", r"data point 7 has no component 'c': it has the keys \['a', 'b'\]"),
    ],
)
def test_missing_component_is_named(point, index, message):
    with pytest.raises(DataPointError, match=message):
        Point(7, point).get(index)


def test_what_is_no_point_is_refused():
    with pytest.raises(DataPointError, match="data point 7 is a str: wanted a list, a tuple or a dict"):
        Point(7, "ab")
