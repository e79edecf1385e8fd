"""Moving averages by themselves; with the layer they are tested in test_batch_norm.py."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import in_scope, tower_number
from tpack.errors import ConfigError
from tpack.models.batch_norm import MovingStatistics, parse_update, updates_statistics
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.getters import compute_in


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (TrainTowerContext(""), True),
        (TrainTowerContext("t", index=1, total=2), False),
        (TrainTowerContext("t", "vs", index=1, total=2), True),
        (PredictTowerContext("p"), False),
    ],
)
def test_each_set_of_variables_is_updated_by_one_training_tower(graph, context, expected):
    assert updates_statistics()
    with context:
        assert updates_statistics() == expected


def test_momentum_may_be_a_tensor_and_the_model_in_16_bits(session8):
    with compute_in(tf.bfloat16):
        moving = MovingStatistics(2, tf.float32, tf.constant(0.75))
    moving.update(tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0]), tf.zeros([]), "collection")
    session8.run(tf.global_variables_initializer())
    session8.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    np.testing.assert_allclose(session8.run(moving.mean), [0.25, 0.5])
    np.testing.assert_allclose(session8.run(moving.variance), [1.5, 2.0])


def test_an_internal_update_comes_before_the_output(session8):
    moving = MovingStatistics(1, tf.float32, 0.0)
    output = moving.update(tf.constant([7.0]), tf.constant([1.0]), tf.zeros([1]), "internal")
    with tf.control_dependencies([output]):
        after = moving.mean.read_value()
    session8.run(tf.global_variables_initializer())
    assert session8.run(after) == [7.0]


@pytest.mark.parametrize(("how", "is_updated"), [("internal", True), ("skip", False), ("collection", None)])
def test_averages_in_a_condition_cannot_be_collected(session8, how, is_updated):
    moving = MovingStatistics(1, tf.float32, 0.0)

    def branch():
        return moving.update(tf.constant([7.0]), tf.constant([1.0]), tf.ones([1]), how)

    if is_updated is None:
        with pytest.raises(ConfigError, match="in a loop, condition or function of TensorFlow.*'internal' or 'skip'"):
            tf.cond(tf.constant(True), branch, lambda: tf.zeros([1]))
        return
    output = tf.cond(tf.constant(True), branch, lambda: tf.zeros([1]))
    session8.run(tf.global_variables_initializer())
    assert session8.run(output) == 1
    assert session8.run(moving.mean) == 7 * is_updated


@pytest.mark.parametrize(
    ("ema_update", "internal_update", "expected"),
    [
        ("default", None, "collection"),
        ("skip", None, "skip"),
        ("default", True, "internal"),
        ("default", False, "collection"),
    ],
)
def test_ways_to_update(graph, ema_update, internal_update, expected):
    assert parse_update("BatchNorm", ema_update, internal_update) == expected


def test_ways_that_are_not_known_are_errors(graph):
    with pytest.raises(ConfigError, match="got ema_update='never': expected one of default, collection, internal"):
        parse_update("BatchNorm", "never", None)
    with pytest.raises(ConfigError, match="expected None beside ema_update="):
        parse_update("BatchNorm", "internal", False)


def test_towers_of_a_strategy_move_their_own_averages_and_the_mean_of_them_is_evaluated(session8):
    def tower():
        moving = MovingStatistics(1, tf.float32, 0.5)
        moving.update(tf.reshape(tower_number(), [1]), tf.constant([1.0]), tf.zeros([]), "collection")
        return tf.identity(moving.mean)

    with in_scope(3) as strategy:
        own = strategy.unwrap(strategy.call_for_each_tower(tower))
    with PredictTowerContext("predict"), tf.variable_scope("", reuse=True):
        evaluated = tf.identity(MovingStatistics(1, tf.float32, 0.5).mean)
    session8.run(tf.global_variables_initializer())
    session8.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    assert session8.run([*own, evaluated, tf.global_variables()[0]]) == [[0.5], [1.0], [1.5], [1.0], [1.0]]
