"""Losses, metrics and optimizers of Keras, by name and as objects, are those that a graph can run."""

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.keras.losses_metrics import KerasLoss, KerasMetric
from tpack.keras.optimizers import as_optimizer_function


@pytest.mark.parametrize(
    "metric", ["mae", "mean_absolute_error", keras.metrics.MeanAbsoluteError(), keras.losses.mean_absolute_error]
)
def test_metrics_are_functions(session8, metric):
    made = KerasMetric(metric)
    target, output = tf.constant([[1.0, 2.0]]), tf.constant([[3.0, 2.5]])
    assert session8.run(made.compute(target, output)) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("target", "output", "wanted"),
    [
        ([1, 0], [[0.2, 0.8], [0.3, 0.7]], [1, 0]),
        ([[0.0, 1.0], [1.0, 0.0]], [[0.2, 0.8], [0.3, 0.7]], [1, 0]),
        ([[1.0], [0.0]], [[0.9], [0.7]], [1, 0]),
    ],
)
def test_accuracy_is_what_the_shapes_make_it(session8, target, output, wanted):
    made = KerasMetric("accuracy")
    assert made.name == "accuracy"
    got = session8.run(made.compute(tf.constant(target), tf.constant(output)))
    assert got == pytest.approx(np.mean(wanted))


def test_a_metric_with_a_state_is_kept_for_evaluations():
    made = KerasMetric(keras.metrics.AUC(name="area"))
    assert (made.name, type(made.keeper(None, None))) == ("area", keras.metrics.AUC)


@pytest.mark.parametrize("loss", ["mse", keras.losses.MeanSquaredError(), keras.losses.mean_squared_error])
def test_losses_are_functions(session8, loss):
    found = session8.run(KerasLoss(loss).compute(tf.constant([[1.0, 2.0]]), tf.constant([[3.0, 2.0]])))
    assert np.mean(found) == 2.0


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [
        ("adam", tf.train.AdamOptimizer),
        ("sgd", tf.train.GradientDescentOptimizer),
        (lambda: tf.train.FtrlOptimizer(0.1), tf.train.FtrlOptimizer),
    ],
)
def test_optimizers_are_those_of_tensorflow(graph, optimizer, kind):
    assert isinstance(as_optimizer_function(optimizer)(), kind)


def test_an_optimizer_that_keras_runs_only_eagerly_is_refused():
    with pytest.raises(ConfigError, match="the optimizer Adagrad, which Keras runs only eagerly"):
        as_optimizer_function("adagrad")
