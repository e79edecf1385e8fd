"""Heads of one class against numpy and scikit-learn."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics as sk

from tests.helpers.head_runs import run_head
from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead

RNG = np.random.default_rng(3)
LOGITS = RNG.normal(size=(40, 1)).astype("float32")
LABELS = (RNG.normal(size=40) < LOGITS[:, 0]).astype("int64")
WEIGHTS = RNG.uniform(0.5, 2, 40).astype("float32")
NAMES = np.array(["no", "yes"])


def cross_entropy(labels, probabilities):
    return -np.where(labels == 1, np.log(probabilities), np.log(1 - probabilities))


def test_two_classes_are_judged_as_scikit_learn_does():
    found = run_head(BinaryClassHead("w", [0.4], loss_reduction="sum"), LOGITS, LABELS, {"w": WEIGHTS})
    p, chosen = expit(LOGITS[:, 0]), (LOGITS[:, 0] > 0).astype(int)
    losses, by = cross_entropy(LABELS, p), {"sample_weight": WEIGHTS}
    np.testing.assert_allclose(found.loss, (losses * WEIGHTS).sum(), rtol=1e-5)
    mean, above = np.average(LABELS, weights=WEIGHTS), p >= 0.4
    expected = {
        "average_loss": np.average(losses, weights=WEIGHTS),
        "accuracy": sk.accuracy_score(LABELS, chosen, **by),
        "precision": sk.precision_score(LABELS, chosen, **by),
        "recall": sk.recall_score(LABELS, chosen, **by),
        "prediction/mean": np.average(p, weights=WEIGHTS),
        "label/mean": mean,
        "accuracy_baseline": max(mean, 1 - mean),
        "accuracy/positive_threshold_0.4": sk.accuracy_score(LABELS, above, **by),
        "precision/positive_threshold_0.4": sk.precision_score(LABELS, above, **by),
        "recall/positive_threshold_0.4": sk.recall_score(LABELS, above, **by),
    }
    area = sk.roc_auc_score(LABELS, p, **by)
    assert found.metrics.pop("auc") == pytest.approx(area, abs=0.01)
    assert found.metrics.pop("auc_precision_recall") == pytest.approx(
        sk.average_precision_score(LABELS, p, **by), abs=0.05
    )
    assert found.metrics == pytest.approx(expected, rel=1e-5)
    assert found.summaries == pytest.approx({"average_loss": expected["average_loss"]}, rel=1e-5)


def test_two_classes_with_names_predict_them():
    found = run_head(BinaryClassHead(label_vocabulary=list(NAMES), name="b"), LOGITS, NAMES[LABELS])
    plain = run_head(BinaryClassHead(), LOGITS, LABELS[:, None].astype("float32"))
    assert found.loss == plain.loss == pytest.approx(cross_entropy(LABELS, expit(LOGITS[:, 0])).mean(), rel=1e-5)
    assert {name.removesuffix("/b") for name in found.metrics} == plain.metrics.keys()
    made, chosen = found.predictions, (LOGITS > 0).astype(int)
    assert made["class_ids"].tolist() == chosen.tolist()
    assert made["classes"].astype(str).tolist() == NAMES[chosen].tolist()
    assert plain.predictions["classes"].astype(str).tolist() == chosen.astype(str).tolist()
    np.testing.assert_allclose(made["probabilities"], np.hstack([1 - expit(LOGITS), expit(LOGITS)]), rtol=1e-5)
    assert made["all_class_ids"].tolist() == [[0, 1]] * 40
    assert made["all_classes"].astype(str).tolist() == [["no", "yes"]] * 40
    assert found.outputs == {
        "serving_default": "ClassificationOutput",
        "classification": "ClassificationOutput",
        "regression": "RegressionOutput",
        "predict": "PredictOutput",
    }


def test_several_classes_are_the_softmax():
    logits, labels = RNG.normal(size=(40, 3)).astype("float32"), RNG.integers(3, size=40)
    names = np.array(["a", "b", "c"])
    p, chosen = softmax(logits, -1), logits.argmax(-1)
    losses = -np.log(p[np.arange(40), labels])
    plain = run_head(MultiClassHead(3, "w"), logits, labels, {"w": WEIGHTS})
    named = run_head(MultiClassHead(3, label_vocabulary=list(names)), logits, names[labels])
    assert plain.loss == pytest.approx((losses * WEIGHTS).mean(), rel=1e-5)
    assert named.loss == pytest.approx(losses.mean(), rel=1e-5)
    accuracy = sk.accuracy_score(labels, chosen, sample_weight=WEIGHTS)
    expected = {"average_loss": np.average(losses, weights=WEIGHTS), "accuracy": accuracy}
    assert plain.metrics == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(plain.predictions["probabilities"], p, rtol=1e-5)
    assert named.predictions["classes"].astype(str).tolist() == names[chosen][:, None].tolist()
    assert named.predictions["all_classes"].astype(str).tolist() == [list(names)] * 40
    kinds = ["ClassificationOutput", "ClassificationOutput", "PredictOutput"]
    assert named.outputs == dict(zip(["serving_default", "classification", "predict"], kinds, strict=True))


def test_a_loss_of_ones_own_is_used():
    def loss(labels, logits):
        return logits[:, :1] - 0 * labels

    logits = RNG.normal(size=(4, 3)).astype("float32")
    head = MultiClassHead(3, loss_fn=lambda labels, logits: logits[:, :1])
    assert run_head(head, logits, np.array([0, 1, 2, 0])).loss == pytest.approx(logits[:, 0].mean(), rel=1e-5)
    assert run_head(BinaryClassHead(loss_fn=loss), LOGITS, LABELS).loss == pytest.approx(LOGITS.mean(), rel=1e-5)


def test_labels_without_vocabulary_are_no_names():
    with pytest.raises(ConfigError, match="got labels of string: expected numbers"):
        run_head(BinaryClassHead(), LOGITS[:2], np.array(["a", "b"]))
