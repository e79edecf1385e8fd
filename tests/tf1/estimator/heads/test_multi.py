"""Several heads on one model: sums of losses, names of what they give."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.head_runs import run_head
from tpack.errors import ConfigError
from tpack.tf1.estimator.heads.classification import BinaryClassHead
from tpack.tf1.estimator.heads.multi import MultiHead
from tpack.tf1.estimator.heads.regression import RegressionHead

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(8, 3)).astype("float32")
LABELS = {"r": RNG.normal(size=(8, 2)).astype("float32"), "b": RNG.integers(2, size=8)}


def heads():
    return [RegressionHead(2, name="r"), BinaryClassHead(name="b")]


def test_losses_are_added_by_weights_and_names_say_whose():
    one, other = (
        run_head(head, logits, LABELS[head.name])
        for head, logits in zip(heads(), (LOGITS[:, :2], LOGITS[:, 2:]), strict=True)
    )
    both = MultiHead(heads(), [1.0, 3.0])
    assert (both.name, both.logits_dimension, both.loss_reduction) == ("r_b", 3, "weighted_sum_over_batch_size")
    found = run_head(both, LOGITS, LABELS, regularization_losses=[0.5])
    assert found.loss == pytest.approx(one.loss + 3 * other.loss + 0.5, rel=1e-5)
    losses = {"loss/r": one.loss, "loss/b": other.loss, "regularization_loss": 0.5}
    assert found.metrics == pytest.approx({**one.metrics, **other.metrics, **losses}, rel=1e-5)
    assert found.summaries == pytest.approx(losses, rel=1e-5)
    for name, alone in (("r", one), ("b", other)):
        for key, value in alone.predictions.items():
            got = found.predictions[name, key]
            assert np.allclose(got, value) if value.dtype.kind == "f" else np.array_equal(got, value)
    named = {f"r/{name}" for name in one.outputs} | {f"b/{name}" for name in other.outputs}
    assert found.outputs.keys() == named - {"r/serving_default", "b/serving_default"} | {
        "serving_default",
        "predict",
        "r",
        "b",
    }
    apart = run_head(both, {"r": LOGITS[:, :2], "b": LOGITS[:, 2:]}, LABELS, regularization_losses=[0.5])
    assert apart.loss == found.loss


def test_wrong_heads_logits_and_labels_are_refused(graph):
    with pytest.raises(ConfigError, match="MultiHead got heads with 0 entries: expected at least 1"):
        MultiHead([])
    for wrong in ([RegressionHead()], [RegressionHead(name="r"), BinaryClassHead(name="r")]):
        with pytest.raises(ConfigError, match=r"expected different names"):
            MultiHead(wrong)
    with pytest.raises(ConfigError, match=r"got 1 weights: expected one for each of 2"):
        MultiHead(heads(), [1.0])
    with pytest.raises(ConfigError, match="got loss_reduction .*: expected one for all"):
        MultiHead([RegressionHead(name="r"), BinaryClassHead(name="b", loss_reduction="sum")]).loss_reduction  # noqa: B018
    both = MultiHead(heads())
    with pytest.raises(ConfigError, match="expected a dict by its heads, r, b"):
        both.loss({"r": LABELS["r"]}, tf.constant(LOGITS))
    with pytest.raises(ConfigError, match="got no logits of b: expected those of all heads"):
        both.loss(LABELS, {"r": tf.constant(LOGITS[:, :2])})


def test_losses_weights_and_labels_are_by_the_names_of_heads(graph, session8):
    head = MultiHead([RegressionHead(2, "w", name="r"), BinaryClassHead(name="b")], [1.0, 3.0])
    found = head.create_loss({"w": tf.fill([8, 1], 2.0)}, "train", tf.constant(LOGITS), LABELS)
    total, losses, labels, weights = session8.run([*found[:2], found.processed_labels, found.weights["r"]])
    assert losses["r"] == pytest.approx((LOGITS[:, :2] - LABELS["r"]) ** 2, rel=1e-5)
    assert losses["b"] == pytest.approx(3 * np.log1p(np.exp(np.where(LABELS["b"], -1, 1) * LOGITS[:, 2]))[:, None])
    assert total == pytest.approx(2 * losses["r"].mean() + losses["b"].mean(), rel=1e-5)
    assert np.array_equal(weights, np.full([8, 1], 2.0)) and found.weights["b"] == 3.0
    assert np.array_equal(labels["b"][:, 0], LABELS["b"])
    with pytest.raises(ConfigError, match="expected the result of its create_loss"):
        head.metric_ops(found.parts["r"], {}, None)
