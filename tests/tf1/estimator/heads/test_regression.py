"""Heads of numbers against their formulas."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from scipy.special import expit

from tests.helpers.head_runs import run_head
from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.regression import LogisticRegressionHead, PoissonRegressionHead, RegressionHead

LOGITS = np.array([[0.5], [-1.0], [2.0], [0.1]], "float32")
WEIGHTS = np.array([1.0, 2.0, 0.5, 0.0], "float32")


def test_regression_is_the_squared_error_by_weights():
    labels = np.array([1.0, 0.0, 2.5, 7.0], "float32")
    squares = (LOGITS[:, 0] - labels) ** 2
    found = run_head(RegressionHead(weight_column="w", loss_reduction="sum"), LOGITS, labels, {"w": WEIGHTS})
    np.testing.assert_allclose(found.loss, (squares * WEIGHTS).sum(), rtol=1e-6)
    assert found.predictions.keys() == {"predictions"}
    mean = np.average(squares, weights=WEIGHTS)
    expected = {
        "average_loss": mean,
        "prediction/mean": np.average(LOGITS[:, 0], weights=WEIGHTS),
        "label/mean": np.average(labels, weights=WEIGHTS),
    }
    assert found.metrics == pytest.approx(expected, rel=1e-5)
    assert found.summaries == pytest.approx({"average_loss": mean}, rel=1e-5)
    kinds = {"serving_default": "RegressionOutput", "regression": "RegressionOutput", "predict": "PredictOutput"}
    assert found.outputs == kinds


def test_a_named_head_of_several_numbers_adds_regularisation():
    logits, labels = np.ones((4, 2), "float32"), np.arange(8, dtype="float32").reshape(4, 2)
    head = RegressionHead(2, name="r", inverse_link_fn=lambda value: 3 * value)
    found = run_head(head, logits, labels, regularization_losses=[1.5, 0.5])
    mean = ((logits - labels) ** 2).mean()
    assert found.loss == pytest.approx(mean + 2)
    assert found.metrics.keys() == {"average_loss/r", "prediction/mean/r", "label/mean/r", "regularization_loss/r"}
    assert found.metrics["prediction/mean/r"] == pytest.approx(3)
    assert found.summaries == pytest.approx({"loss/r": mean + 2, "regularization_loss/r": 2})
    np.testing.assert_allclose(found.predictions["predictions"], 3 * found.predictions["logits"])


def test_poisson_is_the_negative_log_likelihood():
    labels = np.array([[0.0], [1.0], [4.0], [2.0]], "float32")
    found = run_head(PoissonRegressionHead(compute_full_loss=False), LOGITS, labels)
    np.testing.assert_allclose(found.loss, (np.exp(LOGITS) - labels * LOGITS).mean(), rtol=1e-6)
    np.testing.assert_allclose(found.predictions["predictions"], np.exp(LOGITS), rtol=1e-6)
    stirling = labels * np.log(labels + 1e-30) - labels + 0.5 * np.log(2 * np.pi * np.maximum(labels, 1e-30))
    full = run_head(PoissonRegressionHead(), LOGITS, labels)
    extra = np.where(labels > 1, stirling, 0).mean()
    np.testing.assert_allclose(full.loss, found.loss + extra, rtol=1e-5)


def test_logistic_regression_is_the_cross_entropy_of_shares():
    labels = np.array([[0.25], [1.0], [0.5], [0.0]], "float32")
    found = run_head(LogisticRegressionHead(), LOGITS, labels)
    p = expit(LOGITS)
    np.testing.assert_allclose(found.loss, -(labels * np.log(p) + (1 - labels) * np.log(1 - p)).mean(), rtol=1e-6)
    assert found.metrics["prediction/mean"] == pytest.approx(p.mean(), rel=1e-6)


def test_a_loss_of_ones_own_is_used_and_checked(graph):
    head = RegressionHead(loss_fn=lambda labels, logits: tf.abs(labels - logits))
    assert run_head(head, LOGITS, np.zeros(4, "float32")).loss == pytest.approx(np.abs(LOGITS).mean())
    narrow = RegressionHead(loss_fn=lambda labels, logits, features: tf.zeros([4, 2]))
    with pytest.raises(ConfigError, match=r"got results of loss_fn of the shape \(4, 2\): expected 1 column\(s\)"):
        run_head(narrow, LOGITS, np.zeros(4, "float32"))


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="RegressionHead got label_dimension=0: expected an integer of at least 1"):
        RegressionHead(0)
    with pytest.raises(ConfigError, match="got labels of string: expected numbers"):
        run_head(RegressionHead(), LOGITS, np.array([["a"]] * 4))


def test_labels_of_a_probability_are_from_0_to_1(graph, session8):
    labels, head = tf.placeholder(tf.float32, [None, 1]), LogisticRegressionHead()
    loss = head.create_loss({}, "train", tf.zeros([2, 1]), labels).training_loss
    assert session8.run(loss, {labels: [[0.0], [1.0]]}) == pytest.approx(np.log(2))
    for wrong in (-0.2, 1.2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels of a LogisticRegressionHead must be from 0"):
            session8.run(loss, {labels: [[0.4], [wrong]]})
