"""Data points changed, dropped, and reduced to some of their components."""

import pickle

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.mapping import MapData, MapDataComponent, Point, SelectComponent
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError


def flow_of(*points):
    return DataFromList(points, shuffle=False)


def test_map_changes_points_and_drops_those_of_none():
    ds = MapData(Counting(4), lambda point: [point[0] * 10] if point[0] % 2 else None)
    assert list(ds) == [[10], [30]]
    assert len(ds) == 4


@pytest.mark.parametrize(
    ("point", "index", "expected"),
    [([1, 2], 1, [1, -2]), ((1, 2), 0, [-1, 2]), ([1, 2], -1, [1, -2]), ({"a": 1, "b": 2}, "b", {"a": 1, "b": -2})],
)
def test_map_component_changes_one_in_a_copy(point, index, expected):
    before = point.copy() if hasattr(point, "copy") else point
    assert list(MapDataComponent(flow_of(point), lambda value: -value, index)) == [expected]
    assert point == before


def test_map_component_drops_points_of_none():
    assert list(MapDataComponent(flow_of([1], [2]), lambda value: None if value == 1 else value)) == [[2]]


@pytest.mark.parametrize(
    ("point", "index", "message"),
    [
        ([1, 2], 2, "data point 1 has no component 2: it has 2 components"),
        ([1, 2], "a", "data point 1 has no component 'a': it has 2 components"),
        ({"a": 1}, "b", r"data point 1 has no component 'b': it has the keys \['a'\]"),
        ("ab", 0, "data point 1 is a str: expected a list, a tuple or a dict"),
    ],
)
def test_missing_component_is_named(point, index, message):
    good = {index: 0} if isinstance(index, str) else [0, 0, 0]
    with pytest.raises(DataPointError, match=message):
        list(MapDataComponent(flow_of(good, point), str, index))


@pytest.mark.parametrize("kind", [MapData, MapDataComponent])
def test_what_is_no_function_is_refused(kind):
    with pytest.raises(ConfigError, match=f"{kind.__name__} got func=3: expected a function"):
        kind(Counting(), 3)


def test_components_come_in_the_order_given():
    assert list(SelectComponent(Counting(2), [1, 0, 1])) == [["0", 0, "0"], ["1", 1, "1"]]
    ds = SelectComponent(DataFromList([{"a": 1, "b": 2}], shuffle=False), ["b"])
    assert list(pickle.loads(pickle.dumps(ds))) == [[2]]


@pytest.mark.parametrize("idxs", [[], 1, None])
def test_what_is_no_list_of_places_is_refused(idxs):
    with pytest.raises(ConfigError, match="SelectComponent got idxs=.*: expected a list of"):
        SelectComponent(Counting(), idxs)


def test_missing_component_of_a_selection_is_named():
    with pytest.raises(DataPointError, match=r"a data point of type list lacks some of the components \[0, 5\]"):
        list(SelectComponent(Counting(), [0, 5]))


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
def test_component_that_a_point_has_not_is_named(point, index, message):
    with pytest.raises(DataPointError, match=message):
        Point(7, point).get(index)


def test_what_is_no_point_is_refused():
    with pytest.raises(DataPointError, match="data point 7 is a str: expected a list, a tuple or a dict"):
        Point(7, "ab")
