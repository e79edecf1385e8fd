import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt
from tpack.errors import GraphBuildError, WrongTypeError


def test_the_saver_swaps_averages_and_variables(session8, tmp_path):
    w = tf.get_variable("w", initializer=[1.0])
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), average_decay=0.75)
    train_op = optimizer.minimize(tf.reduce_sum(w))
    saver = optimizer.swapping_saver()
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    path = saver.save(session8, str(tmp_path / "model"))

    values = {name: tf.train.load_variable(path, name) for name in ("w", "w/ExponentialMovingAverage")}
    assert values == {"w": [0.75], "w/ExponentialMovingAverage": [0.0]}
    session8.run(w.assign([9.0]))
    saver.restore(session8, path)
    np.testing.assert_allclose(session8.run(w), [0.0])


def test_averages_may_be_updated_at_any_time_and_count_updates(session8):
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=[1.0])
    inner = tf.train.MomentumOptimizer(1.0, 0.9)
    optimizer = opt.MovingAverageOptimizer(inner, 0.75, num_updates=step, sequential_update=False)
    train_op = optimizer.minimize(tf.reduce_sum(w), global_step=step)
    session8.run(tf.global_variables_initializer())
    session8.run(train_op)
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(w, "momentum") is inner.get_slot(w, "momentum")
    assert optimizer.variables() == inner.variables()


def test_a_saver_before_there_are_averages_is_refused(graph):
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0))
    with pytest.raises(GraphBuildError, match="call apply_gradients before"):
        optimizer.swapping_saver()


def test_a_saver_without_the_averages_is_refused(graph):
    w = tf.get_variable("w", initializer=[1.0])
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0))
    optimizer.minimize(tf.reduce_sum(w))
    with pytest.raises(GraphBuildError, match="no w/ExponentialMovingAverage, which is to be saved as weights"):
        optimizer.swapping_saver({"weights": w})


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(WrongTypeError, match="opt=.*expected an Optimizer"):
        opt.MovingAverageOptimizer(0.1)
