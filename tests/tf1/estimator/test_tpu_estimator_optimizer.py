"""The optimizer for shards of a TPU where there is one shard: the optimizer that it was given."""

import pytest

import tpack.tf1 as tf
from tpack.tf1.estimator import tpu


def test_one_shard_is_trained_by_the_optimizer_that_was_given(graph):
    weight = tf.get_variable("w", initializer=2.0)
    momentum = tf.train.MomentumOptimizer(0.1, momentum=0.5)
    optimizer = tf.contrib.tpu.CrossShardOptimizer(momentum)
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(tf.square(weight), step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(train)
        values = session.run([weight, optimizer.get_slot(weight, "momentum"), step])
    # The gradients are 4 and 2 * 1.6, and the second sum is 0.5 * 4 + 3.2.
    assert values == pytest.approx([2 - 0.4 - 0.52, 5.2, 2], rel=1e-6)
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.variables() == momentum.variables()
    assert len(optimizer.variables()) == 1


def test_gradients_are_of_the_variables_that_are_named(graph):
    first, second = (tf.get_variable(name, initializer=3.0) for name in "ab")
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(1.0))
    ((gradient, variable),) = optimizer.compute_gradients(first * second, [second])
    assert variable is second
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(gradient) == 3.0


def test_a_reduction_is_a_sum_or_a_mean():
    inner = tf.train.GradientDescentOptimizer(1.0)
    tf.contrib.tpu.CrossShardOptimizer(inner, tf.losses.Reduction.SUM)
    with pytest.raises(ValueError, match="got reduction='none': expected SUM or MEAN"):
        tf.contrib.tpu.CrossShardOptimizer(inner, tf.losses.Reduction.NONE)


def test_what_stands_beside_it_is_that_of_the_estimators():
    assert tf.contrib.tpu.TPUEstimator is tpu.TPUEstimator
    assert tf.contrib.tpu.RunConfig is tpu.RunConfig
    assert {"CrossShardOptimizer", "TPUConfig", "TPUEstimatorSpec"} <= set(dir(tf.contrib.tpu))
