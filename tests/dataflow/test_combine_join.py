"""Flows side by side."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.combine import JoinData
from tpack.dataflow.sources import DataFromList
from tpack.errors import DataPointError


def flow(points):
    return DataFromList(points, shuffle=False)


def test_components_are_joined_until_the_first_flow_ends():
    ds = JoinData([Counting(3), flow([("a",), ("b",)]), Counting(5)])
    assert list(ds) == [[0, "0", "a", 0, "0"], [1, "1", "b", 1, "1"]]
    assert len(ds) == 2


def test_dicts_are_joined():
    assert list(JoinData([flow([{"a": 1}]), flow([{"b": 2, "c": 3}])])) == [{"a": 1, "b": 2, "c": 3}]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            [[1], {"a": 1}],
            r"data points 0 of the flows are \['list', 'dict'\]: wanted lists and tuples, or dicts alone",
        ),
        ([[1], 3], r"are \['list', 'int'\]"),
        ([{"a": 1}, {"b": 2, "a": 3}], r"data points 0 of the flows have keys in common: \[\['a'\], \['b', 'a'\]\]"),
    ],
)
def test_points_that_do_not_go_together_are_refused(points, message):
    with pytest.raises(DataPointError, match=message):
        list(JoinData([flow([point]) for point in points]))
