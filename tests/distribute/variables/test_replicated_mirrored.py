"""Changing mirrored variables: in updates, across towers, in towers, and outside of strategies."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, SUM, devices_of, in_scope, ops_on, started, tower_number, values
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.values import Mirrored, PerDevice
from tpack.errors import StrategyError, TowerMismatchError
from tpack.graph_builder.towers import build_towers

METHODS = {"assign": 3.0, "assign_add": 13.0, "assign_sub": 7.0}


def make(aggregation=NONE, name="v"):
    return tf.get_variable(name, [], initializer=tf.constant_initializer(10.0), aggregation=aggregation)


def held(session, variable):
    return [float(number) for number in session.run(variable.components)]


@pytest.mark.parametrize("method", METHODS)
def test_in_an_update_the_mirror_of_the_device_is_changed(session8, method):
    with in_scope() as strategy:
        variable = make()
        other = make(name="w")
        # Reached through a variable outside of the arguments, it is the whole one that is changed here.
        changed = strategy.update(other, lambda mirror: getattr(variable, method)(3.0))
        assert isinstance(changed, Mirrored)
        assert ops_on(strategy.unwrap(changed)) == devices_of(2)
    started(session8)
    session8.run(changed.get("/cpu:1"))
    assert held(session8, variable) == [10.0, METHODS[method]]


def test_in_an_update_of_other_devices_a_change_is_refused(graph):
    with in_scope() as strategy:
        with strategy.colocate_vars_with("/cpu:5"):
            elsewhere = make(name="elsewhere")
        with pytest.raises(StrategyError, match="'/device:CPU:0' is not one of .*CPU:5"):
            strategy.update(make(), lambda _: elsewhere.assign_add(1.0))


@pytest.mark.parametrize("method", METHODS)
def test_across_towers_all_mirrors_are_changed(session8, method):
    with in_scope(3) as strategy:
        variable = make()
        changed = strategy.group(getattr(variable, method)(3.0))
    started(session8).run(changed)
    assert held(session8, variable) == [METHODS[method]] * 3


def test_where_something_is_colocated_all_mirrors_are_changed_on_their_devices(session8):
    with in_scope():
        variable = make()
        with tf.colocate_with(variable):
            changed = variable.assign_add(3.0)
    assert ops_on(list(changed.index.values())) == devices_of(2)
    started(session8).run(changed)
    assert held(session8, variable) == [13.0, 13.0]


def test_across_towers_a_mirrored_value_is_taken_device_by_device_and_another_is_refused(session8):
    with in_scope() as strategy:
        variable = make()
        added = strategy.group(variable.assign_add(strategy.broadcast(tf.constant(3.0))))
        per_device = strategy.call_for_each_tower(tower_number)
        with pytest.raises(StrategyError, match="expected mirrored values"):
            variable.assign(per_device)
        with pytest.raises(StrategyError, match="is not one of"):
            variable.assign(strategy.broadcast(tf.constant(1.0), "/cpu:5"))
    started(session8).run(added)
    assert held(session8, variable) == [13.0, 13.0]


@pytest.mark.parametrize(("aggregation", "aggregate"), [(SUM, 6.0), (MEAN, 2.0), (FIRST, 1.0)])
@pytest.mark.parametrize("method", METHODS)
def test_in_towers_what_they_bring_is_aggregated(session8, method, aggregation, aggregate):
    with in_scope(3) as strategy:
        changed = strategy.call_for_each_tower(lambda: getattr(make(aggregation), method)(tower_number()))
        assert isinstance(changed, PerDevice)
        assert ops_on(strategy.unwrap(changed)) == devices_of(3)
    variable = tf.global_variables()[0]
    wanted = {"assign": aggregate, "assign_add": 10 + aggregate, "assign_sub": 10 - aggregate}[method]
    assert values(started(session8), changed) == [wanted] * 3
    assert held(session8, variable) == [wanted] * 3


def test_in_towers_each_counts_once_also_if_they_bring_the_same_number(session8):
    with in_scope(4) as strategy:
        changed = strategy.group(strategy.call_for_each_tower(lambda: make(SUM).assign_add(1)))
    started(session8).run(changed)
    assert held(session8, tf.global_variables()[0]) == [14.0] * 4


def test_in_towers_rows_are_aggregated_as_rows(session8):
    def tower():
        table = tf.get_variable("t", [3, 1], initializer=tf.zeros_initializer(), aggregation=SUM)
        number = get_tower_context().tower_id
        rows = tf.IndexedSlices(tf.fill([1, 1], float(number + 1)), tf.constant([number]), tf.constant([3, 1]))
        with tf.control_dependencies([table.scatter_add(rows)]):
            return table.scatter_sub(rows, name="back")

    with in_scope() as strategy:
        back = strategy.call_for_each_tower(tower)
    table = tf.global_variables()[0]
    assert [v.ravel().tolist() for v in values(started(session8), back)] == [[0.0] * 3] * 2
    assert [v.ravel().tolist() for v in session8.run(table.components)] == [[0.0] * 3] * 2


def test_in_towers_a_change_waits_for_what_the_towers_depend_on(session8):
    counters = []
    for device in devices_of(2):
        with tf.device(device):
            counters.append(tf.get_variable(f"c{len(counters)}", [], initializer=tf.zeros_initializer()))

    def tower():
        variable = make(SUM)
        with tf.control_dependencies([counters[get_tower_context().tower_id].assign_add(1.0)]):
            return variable.assign_add(0.0)

    with in_scope() as strategy:
        changed = strategy.call_for_each_tower(tower)
    started(session8).run(changed.get("/cpu:0"))
    # The change of one mirror needs what both towers brought, so it waits for both.
    assert session8.run(counters) == [1.0, 1.0]


def test_in_towers_an_aggregation_is_needed(graph):
    with (
        in_scope() as strategy,
        pytest.raises(StrategyError, match="calls assign_add of v, which is mirrored: make it"),
    ):
        strategy.call_for_each_tower(lambda: make().assign_add(1.0))


def test_towers_must_change_the_same_variable_in_the_same_way(graph):
    def other_variable():
        return [make(SUM, "a"), make(SUM, "b")][get_tower_context().tower_id].assign(1.0)

    def other_way():
        variable = make(SUM, "c")
        return variable.assign(1.0) if get_tower_context().tower_id else variable.assign_add(1.0)

    with in_scope() as strategy:
        for tower in (other_variable, other_way):
            with pytest.raises(TowerMismatchError, match="expected the same in all towers"):
                strategy.call_for_each_tower(tower)


def test_outside_of_strategies_all_mirrors_are_changed(session8):
    with in_scope():
        variable = make()
    changed = tf.group(*variable.assign(3.0).index.values())
    started(session8).run(changed)
    assert held(session8, variable) == [3.0, 3.0]
    session8.run(tf.assign_add(variable, 1.0).index)
    assert held(session8, variable) == [4.0, 4.0]


@pytest.mark.parametrize("read_value", [False, True])
def test_outside_of_strategies_any_part_of_the_result_changes_all_mirrors(session8, read_value):
    with in_scope():
        variable = make()
    changed = variable.assign_add(3.0, read_value=read_value)
    started(session8)
    for number, part in enumerate([changed, *changed.index.values()], start=1):
        assert session8.run(part) == (10.0 + 3 * number if read_value else None)
        assert held(session8, variable) == [10.0 + 3 * number] * 2


def test_in_a_trainer_s_towers_they_are_changed_as_in_a_strategy_s(session8):
    with in_scope():
        variable = make(SUM)
    built = build_towers(lambda: variable.assign_add(tower_number()), devices_of(2), [True, True])
    started(session8).run(list(built.outputs))
    assert held(session8, variable) == [13.0, 13.0]


def test_options_are_passed_on(graph):
    with in_scope() as strategy:
        variable = make()
        changed = strategy.update(variable, lambda mirror: variable.assign(1.0, read_value=False, name="named"))
        assert [getattr(part, "type", None) for part in strategy.unwrap(changed)] == ["AssignVariableOp"] * 2


def test_a_session_reads_them_in_a_graph_that_is_final(session8):
    with in_scope():
        variable = make()
    started(session8)
    session8.graph.finalize()
    assert session8.run(variable) == 10.0
