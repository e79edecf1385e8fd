"""Metrics at several thresholds at once; the expected values are those of TensorFlow 1.15."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_metrics import run_twice
from tpack.errors import ConfigError

metrics = tf.contrib.metrics
PREDICTIONS, LABELS = [0.1, 0.4, 0.6, 0.9, 0.3], [False, True, True, False, False]
WEIGHTS = [1.0, 2.0, 1.0, 0.5, 3.0]


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


@pytest.mark.parametrize(
    ("metric", "arguments", "expected"),
    [
        ("f1_score", {}, 0.8),
        ("f1_score", {"weights": WEIGHTS, "num_thresholds": 7}, 0.92308),
        ("precision_at_recall", {"target_recall": 0.6}, 0.66667),
        ("precision_at_recall", {"target_recall": 0.4, "weights": WEIGHTS, "num_thresholds": 50}, 0.85714),
        ("recall_at_precision", {"precision": 0.6}, 1.0),
        ("recall_at_precision", {"precision": 0.6, "weights": WEIGHTS, "strict_mode": True}, 0.33333),
        ("recall_at_precision", {"precision": 0.99, "weights": WEIGHTS, "strict_mode": True}, 0.0),
    ],
)
def test_best_thresholds(metric, arguments, expected, graph):
    found = getattr(metrics, metric)(LABELS, PREDICTIONS, metrics_collections=["values"], **arguments)
    assert run_twice(found) == pytest.approx(expected, abs=1e-5)
    assert graph.get_collection("values") == [found[0]]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("true_positives", [6, 2]),
        ("false_positives", [7, 1]),
        ("true_negatives", [2, 8]),
        ("false_negatives", [0, 4]),
        ("false_positive_rate", [0.77778, 0.11111]),
        ("false_negative_rate", [0, 0.66667]),
    ],
)
def test_counts_at_thresholds(metric, expected):
    found = getattr(metrics, f"streaming_{metric}_at_thresholds")(PREDICTIONS, LABELS, [0.2, 0.5], WEIGHTS)
    np.testing.assert_allclose(run_twice(found), expected, atol=1e-5)


def test_variables_are_those_of_the_original():
    metrics.f1_score(LABELS, PREDICTIONS)
    names = [variable.op.name for variable in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)]
    assert names == ["f1/true_positives", "f1/false_negatives", "f1/false_positives"]
    assert tf.local_variables() == tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)


def test_targets_are_probabilities():
    with pytest.raises(ConfigError, match="precision_at_recall got target_recall=1.4: expected the range"):
        metrics.precision_at_recall(LABELS, PREDICTIONS, 1.4)
    with pytest.raises(ConfigError, match="recall_at_precision got precision=-1: expected the range"):
        metrics.recall_at_precision(LABELS, PREDICTIONS, -1)
