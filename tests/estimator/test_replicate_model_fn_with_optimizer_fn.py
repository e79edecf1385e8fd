"""The other form: one optimizer beside the model, losses and gradients summed."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import batch, devices, regression, train
from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.replicate_model_fn import replicate_model_fn_with_optimizer_fn
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.tower.context import TowerContext


def without_train_op(features, labels, mode, params):
    """The model without an optimizer."""
    spec = regression(features, labels, ModeKeys.EVAL, {"reduce": tf.reduce_sum})
    train_op = tf.no_op() if mode == ModeKeys.TRAIN else None
    return EstimatorSpec(mode, spec.predictions, spec.loss, train_op, spec.eval_metric_ops)


@pytest.mark.parametrize("make", [lambda rate: tf.train.GradientDescentOptimizer(rate), tf.train.AdamOptimizer])
def test_sums_are_those_of_the_whole_batch(rng, make):
    data = batch(rng)
    rate = 0.005
    expected = train(regression, data, params={"reduce": tf.reduce_sum, "optimizer": lambda: make(rate)})
    for num_towers in (1, 2, 8):
        replicated = replicate_model_fn_with_optimizer_fn(
            without_train_op, lambda params: make(params["rate"]), devices(num_towers)
        )
        got = train(replicated, data, params={"rate": rate})
        assert got.keys() == expected.keys()
        assert got["global_step"] == 5
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


def test_inside_the_tower_of_an_estimator(rng):
    data = batch(rng)
    replicated = replicate_model_fn_with_optimizer_fn(
        without_train_op, lambda: tf.train.GradientDescentOptimizer(0.005), devices(2)
    )

    def inside(features, labels, mode, params):
        with TowerContext("", is_training=True):
            return replicated(features, labels, mode, params=params)

    expected = train(replicated, data)
    for name, value in train(inside, data).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_evaluation_needs_no_optimizer(session8, rng):
    features, labels = batch(rng)
    replicated = replicate_model_fn_with_optimizer_fn(without_train_op, lambda: 1 / 0, devices(2))
    spec = replicated(features, labels, mode=ModeKeys.EVAL)
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session8.run(spec.eval_metric_ops["error"][1])
    np.testing.assert_allclose(session8.run(spec.eval_metric_ops["error"][0]), np.square(1 - labels).mean(), rtol=1e-6)
    np.testing.assert_allclose(session8.run(spec.loss), np.square(1 - labels).sum(), rtol=1e-6)


def test_what_is_no_optimizer_fn_is_refused(graph):
    with pytest.raises(WrongTypeError, match="^replicate_model_fn_with_optimizer_fn got optimizer_fn="):
        replicate_model_fn_with_optimizer_fn(without_train_op, tf.train.GradientDescentOptimizer(0.1))
    with pytest.raises(ConfigError, match="returned 3: expected a tf.compat.v1.train.Optimizer"):
        train(
            replicate_model_fn_with_optimizer_fn(without_train_op, lambda: 3, devices(2)),
            ({"x": np.ones([2, 3], "f"), "words": np.zeros(2, "i")}, np.ones(2, "f")),
        )
    with pytest.raises(ConfigError, match="does not take features"):
        replicate_model_fn_with_optimizer_fn(lambda x: x, tf.train.AdamOptimizer)


def test_a_loss_without_variables_is_refused(graph):
    def model(features, mode):
        return EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=tf.no_op())

    replicated = replicate_model_fn_with_optimizer_fn(model, tf.train.AdamOptimizer, devices(2))
    with pytest.raises(ConfigError, match="no tower has a gradient"):
        replicated(tf.ones([2]), None, mode=ModeKeys.TRAIN)
