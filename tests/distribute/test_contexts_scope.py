"""The block in which a strategy is current."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import mirrored
from tpack.distribute.contexts import across_towers, current_strategy, get_cross_tower_context, with_resource
from tpack.distribute.variables.distributed import DistributedVariable
from tpack.errors import StrategyError
from tpack.tfutils.summary import MOVING_SUMMARY_OPS_KEY, add_moving_summary


def test_the_strategy_makes_the_variables_of_the_block(graph):
    strategy, made = mirrored(), []

    def create(next_creator, **kwargs):
        made.append((kwargs["name"], kwargs["use_resource"]))
        return next_creator(**kwargs)

    with current_strategy(strategy, create) as current:
        assert current is get_cross_tower_context() is strategy
        tf.get_variable("a", [])
        tf.Variable(1.0, name="b", use_resource=False)
    tf.get_variable("c", [])
    assert made == [("a", True), ("b", True)]


def test_the_block_has_the_device_that_it_is_given(graph):
    with current_strategy(mirrored(), lambda creator, **kwargs: creator(**kwargs), "/cpu:3"):
        assert tf.no_op().device == "/device:CPU:3"
    assert tf.no_op().device == ""


def test_variables_are_not_partitioned(graph):
    with current_strategy(mirrored(), lambda creator, **kwargs: creator(**kwargs)):
        variable = tf.get_variable("a", [4], partitioner=tf.fixed_size_partitioner(2))
    assert variable.shape == [4]


def test_names_and_variable_scopes_are_those_around_the_block(graph):
    with tf.variable_scope("outer"), current_strategy(mirrored(), lambda creator, **kwargs: creator(**kwargs)):
        assert tf.get_variable("a", []).op.name == "outer/a"
        assert tf.no_op(name="b").name == "outer/b"


def test_a_variable_that_is_made_where_another_strategy_is_current_is_an_error(graph):
    strategy = mirrored()
    with (
        current_strategy(strategy, lambda creator, **kwargs: creator(**kwargs)),
        across_towers(mirrored(3)),
        pytest.raises(StrategyError, match="mixing different DistributionStrategy objects"),
    ):
        tf.get_variable("a", [])


def test_imported_variables_stay_plain(session8):
    with tf.Graph().as_default() as other:
        tf.get_variable("v", [], initializer=tf.ones_initializer(), use_resource=True)
    exported = tf.train.export_meta_graph(graph=other)
    with mirrored().scope() as strategy:
        tf.train.import_meta_graph(exported)
        (variable,) = tf.global_variables()
        added = strategy.group(strategy.update(variable, tf.assign_add, 1.0))
    assert not isinstance(variable, DistributedVariable)
    session8.run(tf.global_variables_initializer())
    session8.run(added)
    assert session8.run(variable) == 2.0


def test_an_error_closes_the_block(graph):
    with pytest.raises(KeyError), current_strategy(mirrored(), lambda creator, **kwargs: creator(**kwargs)):
        raise KeyError
    assert get_cross_tower_context() is None
    assert type(tf.get_variable("a", [], use_resource=True)).__name__ == "ResourceVariable"


def test_only_what_says_what_it_is_is_made_a_resource():
    assert with_resource({"use_resource": None, "name": "a"}) == {"use_resource": True, "name": "a"}
    assert with_resource({"name": "a"}) == {"name": "a"}


def test_what_one_tower_makes_for_all_is_a_plain_variable(session8):
    def tower_fn():
        add_moving_summary(tf.constant(2.0, name="cost"))

    strategy = mirrored(2)
    with strategy.scope():
        strategy.call_for_each_tower(tower_fn)
    (state,) = tf.local_variables()
    assert type(state).__name__ == "ResourceVariable"
    session8.run(tf.local_variables_initializer())
    session8.run(tf.get_collection(MOVING_SUMMARY_OPS_KEY))
    average, *_ = session8.run(state)
    np.testing.assert_allclose(average, [2.0])
