"""Counting up once for all towers."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import devices_of, in_scope, started
from tpack.distribute.optimizer import increment_var
from tpack.errors import StrategyError
from tpack.graph_builder.towers import build_towers


def counter():
    return tf.get_variable("n", [], tf.int64, initializer=tf.constant_initializer(5), use_resource=True)


def test_without_a_strategy_it_adds(session8):
    variable = counter()
    incremented = [increment_var(variable), increment_var(variable, 10)]
    assert all(isinstance(operation, tf.Operation) for operation in incremented)
    started(session8).run(incremented)
    assert session8.run(variable) == 16


def test_all_towers_of_a_strategy_add_once(session8):
    with in_scope(4) as strategy:
        incremented = strategy.call_for_each_tower(lambda: increment_var(counter(), 2))
        assert isinstance(incremented, tf.Operation)
    started(session8).run(incremented)
    assert session8.run(tf.global_variables()[0].components) == [7] * 4


@pytest.mark.parametrize(("own_variables", "copies"), [([True, True], 2), ([False, False], 1)])
def test_all_towers_of_a_trainer_add_once_to_each_copy(session8, own_variables, copies):
    built = build_towers(lambda: increment_var(counter()), devices_of(2), own_variables)
    started(session8).run(built.outputs[0])
    variables = [*tf.global_variables(), *tf.local_variables()]
    assert session8.run(variables) == [6] * copies


def test_across_towers_it_is_an_error(graph):
    with in_scope(), pytest.raises(StrategyError, match="increment_var is called in a tower"):
        increment_var(counter())
