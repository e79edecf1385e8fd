"""Metrics that take predictions before labels; the expected values are those of TensorFlow 1.15."""

import inspect

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_metrics import run_twice

metrics = tf.contrib.metrics
PREDICTIONS, LABELS, WEIGHTS = [0, 1, 1, 1, 0], [0, 1, 1, 0, 0], [1.0, 2.0, 1.0, 0.5, 3.0]
LIKELY, CLASSES = [[0.1, 0.5, 0.4], [0.3, 0.2, 0.5]], [[1], [2]]


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("streaming_accuracy", 0.93333),
        ("streaming_precision", 0.85714),
        ("streaming_recall", 1.0),
        ("streaming_true_positives", 6.0),
        ("streaming_false_positives", 1.0),
        ("streaming_true_negatives", 8.0),
        ("streaming_false_negatives", 0.0),
    ],
)
def test_predictions_come_first(name, expected, graph):
    metric = getattr(metrics, name)
    found = metric(PREDICTIONS, LABELS, WEIGHTS, metrics_collections=["values"], updates_collections=["updates"])
    assert run_twice(found) == pytest.approx(expected, abs=1e-5)
    assert graph.get_collection("values") == [found[0]]
    assert graph.get_collection("updates") == [found[1]]
    assert list(inspect.signature(metric).parameters)[:3] == ["predictions", "labels", "weights"]
    assert inspect.getdoc(metric).endswith("adds a batch to it.")


def test_arguments_of_later_versions_are_not_taken():
    names = "predictions labels weights num_thresholds metrics_collections updates_collections curve name"
    assert list(inspect.signature(metrics.streaming_auc).parameters) == names.split()
    likely = tf.constant([0.1, 0.4, 0.6, 0.9, 0.3])
    area = metrics.streaming_auc(likely, tf.constant(LABELS), tf.constant(WEIGHTS), 50, curve="PR")
    assert run_twice(area) == pytest.approx(0.61905, abs=1e-5)


def test_classes_among_the_most_likely():
    assert run_twice(metrics.streaming_recall_at_k(LIKELY, [2, 1], 2, weights=[1.0, 3.0])) == pytest.approx(0.25)
    chosen = tf.constant([[0, 1], [2, 1]])
    assert run_twice(metrics.streaming_sparse_precision_at_top_k(chosen, np.array(CLASSES))) == 0.5
    assert run_twice(metrics.sparse_recall_at_top_k(np.array(CLASSES), chosen, class_id=2)) == 1.0
    names = [variable.op.name for variable in tf.local_variables()]
    assert names[:2] == ["recall_at_2/total", "recall_at_2/count"]
    assert {"precision_at_k/true_positive_at_k", "recall_at_k_class2/true_positive_at_k_class2"} <= set(names)


def test_values_below_a_threshold():
    less = metrics.streaming_percentage_less(tf.constant([0.1, 0.4, 0.6, 0.9, 0.3]), 0.5, WEIGHTS)
    assert run_twice(less) == pytest.approx(0.8)
    assert all(getattr(metrics, name) is not None for name in metrics.__all__)
