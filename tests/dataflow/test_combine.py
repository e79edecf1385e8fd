"""Flows one after the other and side by side, and what all lists of flows do."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.combine import ConcatData, FlowList, JoinData, RandomChooseData, RandomMixData
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError, InputError

every_kind = pytest.mark.parametrize("kind", [ConcatData, JoinData, RandomChooseData, RandomMixData])


def two_lists():
    return [DataFromList([[1], [2]], shuffle=False), DataFromList([[3], [4]], shuffle=False)]


def ready(kind):
    ds = kind(two_lists())
    ds.reset_state()
    return ds


@every_kind
@pytest.mark.parametrize("flows", [[], None, 3, Counting()])
def test_what_is_no_list_of_flows_is_refused(kind, flows):
    with pytest.raises(ConfigError, match=f"{kind.__name__} got df_lists.*: (expected a|expected)"):
        kind(flows)


@every_kind
def test_entry_that_is_no_flow_is_named(kind):
    with pytest.raises(ConfigError, match=rf"{kind.__name__} got df_lists\[1\]=\[1\]: expected a DataFlow"):
        kind([Counting(), [1]])


@every_kind
def test_flow_that_stands_twice_is_reset_once_and_has_no_position(kind):
    inner = Counting()
    ds = kind([inner, inner])
    ds.reset_state()
    assert inner.num_resets == 1
    assert len(list(ds)) >= 7
    with pytest.raises(StatelessError, match="one flow is in its list twice"):
        ds.state_dict()


@every_kind
def test_flow_without_a_position_is_named(kind):
    ds = kind([Counting(), *two_lists()])
    ds.reset_state()
    with pytest.raises(StatelessError, match="Counting cannot tell its position"):
        ds.state_dict()


@every_kind
def test_state_of_another_number_of_flows_is_refused(kind):
    state = ready(kind).state_dict()
    with pytest.raises(InputError, match=f"{kind.__name__} got the states of another number of flows: expected 2"):
        ready(kind).load_state_dict({**state, "flows": state["flows"][:1]})


@every_kind
def test_state_that_fits_the_first_flow_alone_changes_nothing(kind):
    ds = ready(kind)
    points = iter(ds)
    next(points)
    state = ds.state_dict()
    other = ready(kind)
    before = [inner.state_dict() for inner in other.df_lists]
    with pytest.raises(InputError, match="DataFromList got the state of a Counting"):
        other.load_state_dict({**state, "flows": [state["flows"][0], {"flow": "Counting"}]})
    assert [inner.state_dict() for inner in other.df_lists] == before


@every_kind
def test_flows_are_closed_when_a_pass_is_broken_off(kind):
    open_passes = []

    class Watched(Counting):
        def __iter__(self):
            open_passes.append(self)
            try:
                yield from super().__iter__()
            finally:
                open_passes.remove(self)

    ds = kind([Watched(), Watched()])
    ds.reset_state()
    points = iter(ds)
    next(points)
    assert open_passes
    points.close()
    assert open_passes == []


def test_it_is_a_base_and_no_flow():
    with pytest.raises(TypeError, match="__iter__"):
        FlowList([Counting()])


@every_kind
def test_flow_that_stands_inside_two_has_no_position(kind):
    inner = DataFromList([[k] for k in range(7)], shuffle=False)
    ds = kind([MapData(inner, list), kind([MapData(inner, list)])])
    ds.reset_state()
    with pytest.raises(
        StatelessError, match="one flow is in its list twice, maybe inside others; use a flow of its own"
    ):
        ds.state_dict()


def test_points_of_one_flow_follow_those_of_the_other():
    ds = ConcatData([Counting(3), Counting(0), Counting(2)])
    assert [point[0] for point in ds] == [0, 1, 2, 0, 1]
    assert len(ds) == 5


def test_flow_that_was_left_in_the_middle_is_begun_anew_also_after_an_interruption():
    def make():
        return ConcatData([DataFromList([[k] for k in range(start, start + 3)], shuffle=False) for start in (0, 10)])

    ds = make()
    points = iter(ds)
    for _ in range(4):
        next(points)
    points.close()
    points = iter(ds)
    next(points)
    other = make()
    other.load_state_dict(ds.state_dict())
    assert [point[0] for point in other] == [1, 2, 10, 11, 12]


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
            r"data points 0 of the flows are \['list', 'dict'\]: expected lists and tuples, or all dicts",
        ),
        ([[1], 3], r"are \['list', 'int'\]"),
        ([{"a": 1}, {"b": 2, "a": 3}], r"data points 0 of the flows have the keys \[\['a'\], \['b', 'a'\]\]"),
    ],
)
def test_points_that_do_not_go_together_are_refused(points, message):
    with pytest.raises(DataPointError, match=message):
        list(JoinData([flow([point]) for point in points]))
