"""Variables that belong to each tower, and what they are to all towers together."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, ON_READ, SUM, in_scope, started, tower_number, values
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.values import PerDevice
from tpack.errors import ConfigError, StrategyError

NUMBERS = {SUM: 6.0, MEAN: 2.0, FIRST: 1.0}


def make(aggregation=SUM, dtype=tf.float32, name="v"):
    options = {"synchronization": ON_READ, "aggregation": aggregation}
    return tf.get_variable(name, [], dtype, tf.zeros_initializer(), **options)


def held(session, variable):
    return [float(number) for number in session.run(variable.components)]


def test_each_tower_changes_and_reads_its_own(session8):
    def tower():
        variable = make()
        with tf.control_dependencies([variable.assign(tower_number() * 10)]):
            added = variable.assign_add(tower_number())
        with tf.control_dependencies([added]):
            read = tf.identity(variable.read_value())
        with tf.control_dependencies([read]):
            return read, variable.assign_sub(1.0)

    with in_scope(3) as strategy:
        read, left = strategy.call_for_each_tower(tower)
    assert values(started(session8), (read)) == [11.0, 22.0, 33.0]
    assert values(session8, left) == [10.0, 21.0, 32.0]


@pytest.mark.parametrize("aggregation", NUMBERS)
def test_across_towers_it_is_the_aggregate(session8, aggregation):
    def tower():
        variable = make(aggregation)
        across = get_tower_context().merge_call(lambda strategy: variable + 0)
        return variable.assign(tower_number()), variable.read_value(), across, strategy.read_var(variable)

    with in_scope(3) as strategy:
        assigned, own, across, read = strategy.call_for_each_tower(tower)
        variable = tf.global_variables()[0]
        results = [variable.value(), variable + 0, strategy.read_var(variable), across, *strategy.unwrap(read)]
        assert isinstance(variable, PerDevice)
    values(started(session8), assigned)
    assert session8.run([*results, variable]) == [NUMBERS[aggregation]] * (len(results) + 1)
    assert values(session8, own) == [1.0, 2.0, 3.0]


def test_the_mean_of_integers_is_an_integer(session8):
    with in_scope(2) as strategy:
        assigned = strategy.call_for_each_tower(
            lambda: make(MEAN, tf.int32).assign(2 * get_tower_context().tower_id + 1)
        )
    values(started(session8), assigned)
    mean = session8.run(tf.global_variables()[0])
    assert mean == 2
    assert mean.dtype == np.int32


@pytest.mark.parametrize(
    ("aggregation", "num_towers", "dtype", "value", "components"),
    [
        (SUM, 2, tf.float32, 7.0, [3.5, 3.5]),
        (SUM, 4, tf.int64, 10, [4, 2, 2, 2]),
        (SUM, 2, tf.int32, -3, [-1, -2]),
        (SUM, 1, tf.int64, 3, [3]),
        (MEAN, 2, tf.float32, 7.0, [7.0, 7.0]),
        (FIRST, 2, tf.float32, 7.0, [7.0, 7.0]),
    ],
)
def test_across_towers_assigning_gives_each_what_makes_up_the_value(
    session8, aggregation, num_towers, dtype, value, components
):
    with in_scope(num_towers):
        variable = make(aggregation, dtype)
        assigned = variable.assign(value)
    started(session8).run(assigned)
    assert session8.run(variable.components) == components
    assert session8.run(variable) == value


@pytest.mark.parametrize("num_towers", [2, 3, 5, 7, 8])
def test_totals_are_kept_when_they_are_assigned(session8, rng, num_towers):
    totals = [*rng.integers(0, 2**40, 5).astype(np.float64), *rng.normal(size=5)]
    with in_scope(num_towers):
        variable = make(SUM, tf.float64)
        value = tf.placeholder(tf.float64, [])
        assigned = variable.assign(value)
    for total in totals:
        session8.run(assigned, {value: total})
        np.testing.assert_allclose(session8.run(variable), total, rtol=1e-15)


def test_where_something_is_colocated_all_components_are_assigned_to(session8):
    with in_scope():
        variable = make()
        with tf.colocate_with(variable):
            assigned = variable.assign(3.0)
    started(session8).run(assigned)
    assert held(session8, variable) == [1.5, 1.5]


def test_arrays_are_split_like_tensors(graph):
    with in_scope(3):
        variable, counter = make(), make(dtype=tf.int32, name="n")
    assert variable.split_value(np.float32(6)) == [2.0, 2.0, 2.0]
    assert counter.split_value(np.int32(7)) == [3, 2, 2]
    assert counter.split_value(np.int32(7))[1].dtype == np.int32


def test_outside_of_strategies_it_is_the_aggregate_too(session8):
    with in_scope():
        variable = make()
    assigned = variable.assign(5.0)
    started(session8).run(assigned)
    assert held(session8, variable) == [2.5, 2.5]
    assert session8.run(variable + 1) == 6.0


@pytest.mark.parametrize("method", ["assign_add", "assign_sub"])
def test_adding_and_subtracting_need_a_tower(graph, method):
    with in_scope():
        variable = make()
        with pytest.raises(
            StrategyError, match=f"{method} of v, which is local to towers, may only be called in a tow"
        ):
            getattr(variable, method)(1.0)
    with pytest.raises(StrategyError, match="may only be called in a tower context"):
        getattr(variable, method)(1.0)


def test_without_an_aggregation_it_has_no_value_across_towers(session8):
    with in_scope() as strategy:
        own = strategy.call_for_each_tower(lambda: make(NONE).assign_add(tower_number()))
        variable = tf.global_variables()[0]
        with pytest.raises(StrategyError, match="v is local to towers and has no aggregation"):
            variable.value()
    assert values(started(session8), own) == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [tf.bool, tf.string])
def test_what_has_no_sum_is_that_of_the_first_tower(session8, dtype):
    with in_scope():
        for aggregation in (SUM, MEAN):
            with pytest.raises(ConfigError, match=f"is local to towers and of {dtype.name}, which has no sum or mean"):
                make(aggregation, dtype, name=aggregation.name)
        variable = make(FIRST, dtype)
    assert started(session8).run(variable) == (b"" if dtype == tf.string else False)


def test_metrics_of_tensorflow_count_in_each_tower_and_are_read_across(session8):
    def tower():
        labels = tf.range(get_tower_context().tower_id + 2)
        return tf.metrics.accuracy(labels, tf.zeros_like(labels))[1]

    with in_scope(3) as strategy:
        updates = strategy.group(strategy.call_for_each_tower(tower))
        total, count = tf.local_variables()
        accuracy = strategy.read_var(total) / strategy.read_var(count)
    started(session8).run(updates)
    assert session8.run([total, count, accuracy]) == [3.0, 9.0, pytest.approx(1 / 3)]


def test_a_session_reads_the_aggregate_in_a_graph_that_is_final(session8):
    with in_scope(3) as strategy:
        variable = make()
        added = strategy.group(strategy.call_for_each_tower(lambda: variable.assign_add(tower_number() + 1.0)))
    started(session8)
    session8.graph.finalize()
    session8.run(added)
    before = sum(held(session8, variable))
    assert session8.run(variable) == before
    assert before > 0


def test_functions_of_tensorflow_change_a_tower_s_own_by_its_handle(session8):
    def tower():
        options = {"synchronization": ON_READ, "aggregation": SUM}
        variable = tf.get_variable("v", [3], initializer=tf.zeros_initializer(), **options)
        return tf.scatter_add(variable, [get_tower_context().tower_id], [tower_number()])

    with in_scope(2) as strategy:
        added = strategy.call_for_each_tower(tower)
        (variable,) = tf.global_variables()
        with pytest.raises(StrategyError, match="ResourceScatterAdd of v, which is local to towers, may only"):
            tf.scatter_add(variable, [0], [1.0])
    np.testing.assert_array_equal(values(started(session8), added), [[1, 0, 0], [0, 2, 0]])
    np.testing.assert_array_equal(session8.run(variable), [1, 2, 0])
