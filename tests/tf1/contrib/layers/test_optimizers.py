"""A loss, an optimizer and what lies between them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers, slim
from tpack.tf1.contrib.layers.optimizers import make_optimizer


@pytest.fixture
def step(graph):
    return tf.train.get_or_create_global_step()


def loss_of(size=2):
    w = tf.get_variable("w", [size], initializer=tf.ones_initializer(), use_resource=True)
    return tf.reduce_sum(tf.constant([3.0, 4.0][:size]) * w)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.7, 0.6]),
        ({"clip_gradients": 1.0}, [0.94, 0.92]),
        ({"clip_gradients": lambda pairs: [(grad * 0, var) for grad, var in pairs]}, [1.0, 1.0]),
        ({"gradient_multipliers": {"w:0": 2.0}}, [0.4, 0.2]),
        ({"learning_rate_decay_fn": lambda rate, step: rate * 2}, [0.4, 0.2]),
        ({"learning_rate": tf.constant}, [0.7, 0.6]),
        ({"optimizer": tf.train.GradientDescentOptimizer}, [0.7, 0.6]),
        ({"optimizer": tf.train.GradientDescentOptimizer(0.2), "learning_rate": None}, [0.4, 0.2]),
        ({"optimizer": lambda rate: tf.train.GradientDescentOptimizer(rate * 2)}, [0.4, 0.2]),
        ({"gradient_noise_scale": 0.0}, [0.7, 0.6]),
    ],
)
def test_a_step(step, options, expected):
    options = {"learning_rate": 0.1, "optimizer": "SGD", **options}
    if options["learning_rate"] is tf.constant:
        options["learning_rate"] = tf.constant(0.1)
    train = layers.optimize_loss(loss_of(), step, **options)
    loss, (w, count) = run(train, then=[tf.trainable_variables()[0], step])
    assert (loss, count) == (7.0, 1)
    np.testing.assert_allclose(w, expected, rtol=1e-6)


def test_names_and_summaries(step):
    ran = tf.get_variable("ran", [], initializer=tf.zeros_initializer(), trainable=False, use_resource=True)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, ran.assign_add(1.0).op)
    wanted = ["loss", "gradients", "gradient_norm", "global_gradient_norm"]
    train = layers.optimize_loss(loss_of(), step, 0.1, "Momentum", clip_gradients=1.0, summaries=wanted)
    assert names()[-2:] == ["OptimizeLoss/learning_rate", "OptimizeLoss/w/Momentum"]
    scope = "OptimizeLoss/"
    assert names(tf.GraphKeys.SUMMARIES) == [
        scope + "global_norm/gradient_norm",
        scope + "loss",
        scope + "gradients/w_0",
        scope + "gradient_norm/w_0",
        scope + "global_norm/clipped_gradient_norm",
    ]
    _, (count, summary) = run(train, then=[ran, tf.get_collection(tf.GraphKeys.SUMMARIES)[0]])
    assert count == 1
    assert tf.Summary.FromString(summary).value[0].simple_value == 5.0


def test_the_step_need_not_be_counted(step):
    rows = tf.get_variable("rows", [3, 1], initializer=tf.ones_initializer(), use_resource=True)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(rows, [1, 1]))
    options = {"gradient_multipliers": {"rows:0": 3.0}, "increment_global_step": False}
    _, (value, count) = run(layers.optimize_loss(loss, None, 0.1, "SGD", **options), then=[rows, step])
    assert count == 0
    np.testing.assert_allclose(value[:, 0], [1.0, 0.4, 1.0], rtol=1e-6)


def test_gradients_far_above_the_usual_are_scaled_down(step):
    clip = slim.adaptive_clipping_fn(std_factor=1.0, decay=0.5, static_max_norm=100.0, report_summary=True)
    norm = tf.placeholder(tf.float32, [])
    ((grad, _),) = clip([(norm * tf.constant([0.6, 0.8]), None)])
    assert names()[-2:] == ["AdaptiveMaxNorm/mean", "AdaptiveMaxNorm/sq_mean"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        usual = [session.run(grad, {norm: 2.0}) for _ in range(20)][-1]
        outlier = session.run(grad, {norm: 1e6})
    np.testing.assert_allclose(np.linalg.norm(usual), 2.0, rtol=1e-3)
    assert np.linalg.norm(outlier) < 101
    counted = slim.adaptive_clipping_fn(global_step=step, name="counted")([(tf.ones([2]), None)])
    assert len(counted) == 1


def test_what_cannot_be_is_refused(step):
    loss = loss_of()
    for options, message in (
        ({"loss": tf.zeros([2])}, "expected a scalar"),
        ({"optimizer": "X"}, "expected one of Adagrad"),
        ({"optimizer": 3}, "expected a name"),
        ({"learning_rate": None}, "got learning_rate=None"),
        ({"learning_rate": -1.0}, "at least 0"),
        ({"learning_rate": "a"}, "a number or a scalar tensor"),
        ({"summaries": ["a"]}, "expected some of"),
        ({"clip_gradients": "a"}, "got clip_gradients="),
    ):
        with pytest.raises(ConfigError, match=message):
            layers.optimize_loss(
                **{"loss": loss, "global_step": step, "learning_rate": 0.1, "optimizer": "SGD", **options}
            )
    with pytest.raises(ConfigError, match="expected an Optimizer"):
        make_optimizer(lambda rate: rate, 0.1)
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="without a global step"):
        layers.optimize_loss(loss_of(1), None, 0.1, "SGD", learning_rate_decay_fn=lambda rate, step: rate)
