"""The head of several classes at once against numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from scipy.special import expit

from tests.helpers.head_runs import run_head
from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.classification import MultiLabelHead

RNG = np.random.default_rng(4)
LOGITS = RNG.normal(size=(30, 3)).astype("float32")
LABELS = (RNG.normal(size=(30, 3)) < LOGITS).astype("int64")
WEIGHTS = RNG.uniform(0.5, 2, (30, 1)).astype("float32")
NAMES = ["a", "b", "c"]


def test_each_class_is_a_coin():
    head = MultiLabelHead(3, "w", [0.3], NAMES, classes_for_class_based_metrics=["a", 2])
    found = run_head(head, LOGITS, LABELS, {"w": WEIGHTS})
    p = expit(LOGITS)
    losses = -np.where(LABELS == 1, np.log(p), np.log(1 - p)).mean(-1, keepdims=True)
    assert found.loss == pytest.approx((losses * WEIGHTS).mean(), rel=1e-5)
    full = np.broadcast_to(WEIGHTS, LABELS.shape)
    above = p >= 0.3
    expected = {
        "average_loss": np.average(losses, weights=WEIGHTS),
        "accuracy/positive_threshold_0.3": np.average(above == LABELS, weights=full),
        "recall/positive_threshold_0.3": np.average(above[LABELS == 1], weights=full[LABELS == 1]),
        "precision/positive_threshold_0.3": np.average(LABELS[above], weights=full[above]),
        "probability_mean/a": np.average(p[:, 0], weights=WEIGHTS[:, 0]),
        "probability_mean/c": np.average(p[:, 2], weights=WEIGHTS[:, 0]),
    }
    areas = {name: found.metrics.pop(name) for name in list(found.metrics) if name.startswith("auc")}
    curves = ["auc", "auc_precision_recall"]
    assert areas.keys() == {f"{curve}{of}" for curve in curves for of in ("", "/a", "/c")}
    assert all(0.5 < area <= 1 for area in areas.values())
    assert found.metrics == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(found.predictions["probabilities"], p, rtol=1e-5)
    assert found.outputs["serving_default"] == found.outputs["classification"] == "ClassificationOutput"


def test_sparse_labels_are_the_numbers_or_names_of_classes():
    where = np.argwhere(LABELS)
    dense = run_head(MultiLabelHead(3), LOGITS, LABELS)
    for values, head in (
        (where[:, 1], MultiLabelHead(3)),
        (np.array(NAMES)[where[:, 1]], MultiLabelHead(3, label_vocabulary=NAMES)),
    ):
        with tf.Graph().as_default(), tf.Session() as session:
            labels = tf.SparseTensor(where, values, LABELS.shape)
            loss = head.loss(labels, tf.constant(LOGITS))
            session.run(tf.tables_initializer())
            assert session.run(loss) == pytest.approx(dense.loss, rel=1e-6)


def test_a_loss_of_ones_own_is_used():
    head = MultiLabelHead(3, loss_fn=lambda labels, logits: logits[:, :1])
    assert run_head(head, LOGITS, LABELS).loss == pytest.approx(LOGITS[:, 0].mean(), rel=1e-5)


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="expected numbers from 0 to 2, or names of the label_vocabulary"):
        MultiLabelHead(3, classes_for_class_based_metrics=["z"])
    with pytest.raises(ConfigError, match="got dense labels of float32: expected integers, 0 or 1"):
        run_head(MultiLabelHead(3), LOGITS, LABELS.astype("float32"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="dense labels of several classes must be from 0 to 1"):
        run_head(MultiLabelHead(3), LOGITS, 2 * LABELS)
