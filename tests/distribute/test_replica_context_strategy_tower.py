"""The towers that a strategy builds: names, variables, collections."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import devices_of, in_scope
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.replica_context import StrategyTower, call_in_strategy_towers
from tpack.distribute.values import PerDevice
from tpack.errors import StrategyError, TowerMismatchError
from tpack.tower.context import current_tower_context

UPDATE_OPS = tf.GraphKeys.UPDATE_OPS


def test_names_are_inside_those_around_the_towers_and_the_first_has_none(graph):
    main = StrategyTower(0, 2, "/cpu:0")
    with tf.name_scope("around"):
        other = StrategyTower(1, 2, "/cpu:1", main)
    assert (main.name, other.name) == ("", "around/tower1")
    assert not main.has_own_variables
    assert (other.index, other.total, other.is_training) == (1, 2, True)


def test_updates_are_for_every_tower(graph):
    def tower():
        tf.add_to_collection(UPDATE_OPS, tf.no_op())
        return current_tower_context().updates_variables

    with in_scope(3) as strategy:
        assert call_in_strategy_towers(strategy, devices_of(3), tower, (), {}) is True
    assert [op.device for op in tf.get_collection(UPDATE_OPS)] == devices_of(3)


def test_towers_after_the_first_take_what_it_made(graph):
    def tower():
        made = [tf.get_variable("a", []), tf.Variable(1.0, name="b")]
        made.append(tf.get_local_variable("c", []))
        assert current_tower_context().recorder.variables[-1] is made[1 if get_tower_context().tower_id else 2]
        return made

    with in_scope(3) as strategy:
        made = call_in_strategy_towers(strategy, devices_of(3), tower, (), {})
    assert [variable.op.name for variable in made] == ["a", "b", "c"]
    assert (tf.global_variables(), tf.local_variables()) == (made[:2], made[2:])


def test_each_tower_gets_its_part_of_the_arguments_on_its_device(graph):
    def tower(a, *, b):
        return a, b, tf.no_op().device

    value = PerDevice({device: device for device in devices_of(2)})
    with in_scope() as strategy:
        seen = call_in_strategy_towers(strategy, devices_of(2), tower, [[value, 1]], {"b": {"k": value}})
        with pytest.raises(StrategyError, match="is not one of"):
            call_in_strategy_towers(strategy, ["/device:CPU:0", "/device:CPU:5"], tower, [value], {"b": 1})
    for device in devices_of(2):
        assert [seen[0][0].get(device), seen[1]["k"].get(device), seen[2].get(device)] == [device] * 3
    assert seen[0][1] == 1


def test_names_that_differ_by_the_number_of_a_tower_are_matched(graph):
    def tower():
        index = get_tower_context().tower_id
        with tf.name_scope(f"part_{index}"):
            return [tf.Variable(1.0, name=f"a_{index}"), tf.Variable([1.0], name="b"), tf.Variable(1.0, name="b_1")]

    with in_scope(3) as strategy:
        variables = strategy.call_for_each_tower(tower)
    assert [variable.op.name for variable in variables] == ["part_0/a_0", "part_0/b", "part_0/b_1"]


def test_names_that_differ_by_numbers_and_could_be_several_are_not_matched(graph):
    def tower():
        index = get_tower_context().tower_id
        return [tf.Variable(1.0, name=f"a_{2 * index + k}") for k in range(2)]

    with in_scope() as strategy, pytest.raises(TowerMismatchError, match="creates the variable 'a_2'.*near names: a_"):
        strategy.call_for_each_tower(tower)


def test_a_creator_may_return_anything(graph):
    def tower():
        index = get_tower_context().tower_id

        def number(next_creator, **kwargs):
            return f"{next_creator(**kwargs)} in tower {index}"

        with tf.variable_creator_scope(number):
            made = tf.Variable([1.0]), tf.Variable(2.0)
            get_tower_context().merge_call(lambda _: None)
            return made

    with in_scope() as strategy, tf.variable_creator_scope(lambda _, **kwargs: "no variable"):
        made = strategy.call_for_each_tower(tower)
    assert [list(each.index.values()) for each in made] == [["no variable in tower 0", "no variable in tower 1"]] * 2
