"""Metrics that count, compare and correlate, against numpy and the values of TensorFlow 1.15."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_metrics import run_twice
from tpack.errors import ConfigError

metrics = tf.contrib.metrics
X, Y, WEIGHTS = [0.1, 0.4, 0.6, 0.9, 0.3], [1.0, 2.0, 0.0, 4.0, 1.0], [1.0, 2.0, 1.0, 0.5, 3.0]
PREDICTIONS, LABELS = [0, 1, 1, 1, 0], [0, 1, 1, 0, 0]


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


def test_examples_and_weights_are_counted():
    assert run_twice(metrics.count(X)) == 10
    assert run_twice(metrics.count(X, WEIGHTS)) == 15
    assert [variable.op.name for variable in tf.local_variables()] == ["count/count", "count_1/count"]


def test_rates_of_mistakes():
    assert run_twice(metrics.streaming_false_positive_rate(PREDICTIONS, LABELS)) == pytest.approx(1 / 3)
    assert run_twice(metrics.streaming_false_positive_rate(PREDICTIONS, LABELS, WEIGHTS)) == pytest.approx(1 / 9)
    assert run_twice(metrics.streaming_false_negative_rate(LABELS, PREDICTIONS)) == pytest.approx(1 / 3)


def test_covariance_and_correlation_are_those_of_numpy():
    x, y = X * 2, Y * 2
    assert run_twice(metrics.streaming_covariance(X, Y)) == pytest.approx(np.cov(x, y)[0, 1], rel=1e-5)
    correlation = metrics.streaming_pearson_correlation(X, Y, metrics_collections=["values"])
    assert run_twice(correlation) == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-5)
    assert tf.get_collection("values") == [correlation[0]]


def test_weights_of_series_say_how_often_an_example_came():
    assert run_twice(metrics.streaming_covariance(X, Y, WEIGHTS)) == pytest.approx(0.08571, abs=1e-5)
    assert run_twice(metrics.streaming_pearson_correlation(X, Y, WEIGHTS)) == pytest.approx(0.43759, abs=1e-5)
    value, _ = metrics.streaming_covariance(X, Y)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert np.isnan(session.run(value))


def test_agreement_of_two_raters():
    one, other = [0, 1, 2, 1], [0, 1, 1, 1]
    assert run_twice(metrics.cohen_kappa(one, other, 3)) == pytest.approx(5 / 9)
    assert run_twice(metrics.cohen_kappa(one, other, 3, weights=[1.0, 2.0, 3.0, 4.0])) == pytest.approx(1 / 3)


def test_all_values_are_kept():
    assert run_twice(metrics.streaming_concat(tf.constant([1, 2, 3]))).tolist() == [1, 2, 3, 1, 2, 3]
    rows = tf.constant([[1, 2, 3]])
    assert run_twice(metrics.streaming_concat(rows, axis=1, max_size=5)).tolist() == [[1, 2, 3, 1, 2]]
    assert run_twice(metrics.streaming_concat(rows, axis=-2)).tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(ConfigError, match="got axis=2 for the shape"):
        metrics.streaming_concat(rows, axis=2)
    with pytest.raises(ConfigError, match="expected known sizes but that of axis 0"):
        metrics.streaming_concat(tf.placeholder(tf.float32, [None, None]))


def test_accuracy_of_a_batch():
    predictions, labels = tf.constant(PREDICTIONS), tf.constant(LABELS)
    with tf.Session() as session:
        assert session.run(metrics.accuracy(predictions, labels)) == pytest.approx(0.8)
        assert session.run(metrics.accuracy(predictions, labels, WEIGHTS)) == pytest.approx(0.93333, abs=1e-5)
    with pytest.raises(ConfigError, match="got labels of .*float32.*: expected booleans"):
        metrics.accuracy(tf.constant(X), tf.constant(Y))
    with pytest.raises(ConfigError, match="got predictions of .*int32.*: expected those of labels, .*int64"):
        metrics.accuracy(predictions, tf.constant(LABELS, tf.int64))


def test_metrics_are_gathered():
    assert metrics.aggregate_metrics((1, 2), (3, 4)) == ([1, 3], [2, 4])
    assert metrics.aggregate_metric_map({"a": (1, 2), "b": (3, 4)}) == ({"a": 1, "b": 3}, {"a": 2, "b": 4})
    with pytest.raises(ConfigError, match="got no metric"):
        metrics.aggregate_metrics()
