"""From values of each device to values of all devices, and back."""

from collections import OrderedDict, namedtuple

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import in_scope
from tpack.distribute.values import MapOutput, Mirrored, PerDevice, regroup, select_device, select_device_mirrored
from tpack.errors import ConfigError, StrategyError, TowerMismatchError

A, B = "/device:CPU:0", "/device:CPU:1"
Point = namedtuple("Point", ["x", "y"])


def test_different_objects_are_a_value_of_all_devices():
    value = regroup({A: "a", B: "b"})
    assert isinstance(value, PerDevice)
    assert value.index == {A: "a", B: "b"}
    assert isinstance(regroup({A: "a", B: "b"}, Mirrored), Mirrored)


def test_the_same_object_is_itself():
    thing = object()
    assert regroup({A: thing, B: thing}) is thing
    assert regroup({A: None, B: None}) is None
    equal_only = [float("1.5"), float("1.5")]
    assert isinstance(regroup(dict(zip([A, B], equal_only, strict=True))), PerDevice)


def test_of_one_device_everything_is_itself_but_a_list_of_results():
    assert regroup({A: ["a", {"k": "b"}]}) == ["a", {"k": "b"}]
    assert isinstance(regroup({A: MapOutput([])}), PerDevice)


def test_containers_stay_and_hold_values_of_all_devices():
    value = regroup({A: [("a", 1), {"k": Point("c", "same")}], B: [("b", 2), {"k": Point("d", "same")}]})
    assert isinstance(value, list)
    assert isinstance(value[0], tuple)
    assert value[0][0].index == {A: "a", B: "b"}
    assert isinstance(value[1]["k"], Point)
    assert value[1]["k"].x.index == {A: "c", B: "d"}
    assert value[1]["k"].y == "same"


def test_ordered_dicts_stay_ordered_and_others_become_plain_ones():
    class Own(dict):
        pass

    assert type(regroup({A: OrderedDict(z=1, a=2), B: OrderedDict(a=2, z=1)})) is OrderedDict
    assert list(regroup({A: OrderedDict(z=1, a=2), B: OrderedDict(a=2, z=1)})) == ["z", "a"]
    assert type(regroup({A: Own(a=1), B: Own(a=1)})) is dict


@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 2], [1]), ([1], (1,)), ([1], 1), ({"a": 1}, {"b": 1}), (Point(1, 2), (1, 2)), ([[1], [2]], [[1], [2, 3]])],
)
def test_different_structures_are_an_error_that_shows_both(first, second):
    with pytest.raises(TowerMismatchError, match="expected the same structure on all devices: .*CPU:0 has .*CPU:1 has"):
        regroup({A: first, B: second})


def test_no_device_is_an_error():
    with pytest.raises(ConfigError, match="at least one device"):
        regroup({})


def test_the_parts_of_a_variable_are_the_variable(graph):
    with in_scope():
        variable, other = tf.get_variable("v", []), tf.get_variable("w", [])
    assert regroup(dict(zip([A, B], variable.components, strict=True))) is variable
    assert regroup({A: variable, B: variable}) is variable
    assert regroup({A: variable.primary}) is variable
    assert isinstance(regroup({A: variable, B: other}), PerDevice)


@pytest.mark.parametrize("mixed", ["other variable", "other order", "not a part"])
def test_mixed_up_parts_of_variables_are_an_error(graph, mixed):
    with in_scope():
        variable, other = tf.get_variable("v", []), tf.get_variable("w", [])
    first, second = variable.components
    parts = {
        "other variable": {A: first, B: other.components[1]},
        "other order": {A: second, B: first},
        "not a part": {A: first, B: "b"},
    }[mixed]
    with pytest.raises(TowerMismatchError, match="expected on each device its part of <MirroredVariable 'v'"):
        regroup(parts)


def test_select_takes_one_device_s_part_out_of_containers():
    per_device, same = PerDevice({A: "a", B: "b"}), Mirrored({A: "c", B: "c"})
    structured = [Point(per_device, 1), {"k": (same, [None])}]
    assert select_device("/cpu:1", structured) == [Point("b", 1), {"k": ("c", [None])}]
    assert select_device_mirrored(B, {"k": (same, Point("x", same))}) == {"k": ("c", Point("x", "c"))}


def test_select_undoes_regroup():
    made = {A: [1, (2, {"k": 3})], B: [4, (2, {"k": 5})]}
    assert {device: select_device(device, regroup(made)) for device in made} == made


def test_values_that_are_not_mirrored_are_refused_where_they_must_be():
    with pytest.raises(StrategyError, match="expected mirrored values"):
        select_device_mirrored(A, [PerDevice({A: 1})])


def test_a_device_without_a_part_is_an_error():
    with pytest.raises(StrategyError, match="is not one of"):
        select_device("/cpu:5", [Mirrored({A: 1})])


class Checked(namedtuple("Checked", ["x"])):
    """A named tuple that takes other arguments than its fields, and refuses what is no number."""

    def __new__(cls, *, number):
        assert isinstance(number, float)
        return super().__new__(cls, number)


def test_named_tuples_are_made_of_their_parts_whatever_their_constructor_wants():
    grouped = regroup({A: Checked(number=1.0), B: Checked(number=2.0)})
    assert isinstance(grouped, Checked)
    assert grouped.x.index == {A: 1.0, B: 2.0}
    assert select_device(B, grouped) == Checked(number=2.0)
