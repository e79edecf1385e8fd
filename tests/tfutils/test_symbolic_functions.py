"""Small functions of tensors, against numpy."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError
from tpack.tfutils import symbolic_functions as symbf
from tpack.tower.context import TrainTowerContext


@pytest.mark.parametrize("topk", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_accuracy_counts_labels_among_the_best(session8: Any, rng: Any, topk: int, dtype: str) -> None:
    logits = rng.permuted(np.tile(np.arange(10.0), (50, 1)), axis=1)
    labels = rng.integers(0, 10, 50)
    wrong = [label not in np.argsort(row)[-topk:] for row, label in zip(logits, labels, strict=True)]
    logits = tf.cast(tf.constant(logits), dtype)
    incorrect = symbf.prediction_incorrect(logits, tf.constant(labels), topk)
    accuracy = symbf.accuracy(logits, tf.constant(labels), topk)
    assert [incorrect.op.name, accuracy.op.name] == ["incorrect_vector", "accuracy"]
    values = session8.run([incorrect, accuracy])
    np.testing.assert_array_equal(values[0], np.float32(wrong))
    assert values[1] == pytest.approx(1 - np.mean(wrong))


def test_flattening_keeps_what_is_static(session8: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    unknown_batch = tf.placeholder(tf.float64, [None, 3, 4])
    unknown_width = tf.placeholder(tf.float64, [None, None, 4])
    tensors = [symbf.batch_flatten(t) for t in (tf.constant(x), unknown_batch, unknown_width)]
    assert [t.shape.as_list() for t in tensors] == [[2, 12], [None, 12], [None, None]]
    values = session8.run([*tensors, symbf.flatten(unknown_width)], {unknown_batch: x, unknown_width: x})
    for value in values[:3]:
        np.testing.assert_array_equal(value, x.reshape(2, 12))
    np.testing.assert_array_equal(values[3], x.ravel())
    assert session8.run(tensors[1], {unknown_batch: np.zeros([0, 3, 4])}).shape == (0, 12)


@pytest.mark.parametrize("labels", ["some", "none", "all"])
def test_class_balanced_cross_entropy_and_its_gradient(session8: Any, rng: Any, labels: str) -> None:
    logits = rng.normal(size=(4, 6)) * 3
    label = {"some": rng.random((4, 6)) < 0.2, "none": np.zeros((4, 6)), "all": np.ones((4, 6))}[labels].astype(float)
    beta = 1 - label.mean()
    p = 1 / (1 + np.exp(-logits))
    expected = -np.mean(beta * label * np.log(p) + (1 - beta) * (1 - label) * np.log(1 - p))
    gradient = (-beta * label * (1 - p) + (1 - beta) * (1 - label) * p) / label.size
    x = tf.constant(logits)
    loss = symbf.class_balanced_sigmoid_cross_entropy(x, tf.constant(label.astype("int32")))
    assert loss.op.name == "cross_entropy_loss"
    values = session8.run([loss, tf.gradients(loss, x)[0]])
    np.testing.assert_allclose(values[0], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values[1], gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("maxp", [None, 255])
def test_psnr_is_that_of_the_textbook(session8: Any, rng: Any, maxp: float | None) -> None:
    images = rng.random((2, 3, 8, 8, 3)).astype("float32") * (maxp or 1)
    expected = 20 * np.log10((maxp or 1) / np.sqrt(np.mean((images[0] - images[1]) ** 2)))
    ratio, best = symbf.psnr(images[0], images[1], maxp), symbf.psnr(images[0], images[0], maxp, name="best")
    assert (ratio.op.name, best.op.name) == ("psnr", "best")
    np.testing.assert_allclose(session8.run(ratio), expected, rtol=1e-5)
    assert np.isposinf(session8.run(best))


def test_psnr_wants_a_positive_peak() -> None:
    with pytest.raises(ConfigError, match="psnr got maxp=0: expected a number above 0"):
        symbf.psnr(1.0, 2.0, 0)


def test_rms_has_the_name_that_is_asked_for(session8: Any) -> None:
    x = tf.constant([[3.0, -4.0], [0.0, 5.0]])
    tensors = [symbf.rms(x), symbf.rms(x, name="size")]
    assert tensors[1].op.name == "size"
    np.testing.assert_allclose(session8.run(tensors), np.sqrt(50 / 4))


def test_scalar_variable_is_summarised_by_the_main_tower(session8: Any) -> None:
    for index in range(2):
        with TrainTowerContext(f"tower{index}", index=index, total=2, reuse=index > 0):
            rate = symbf.get_scalar_var("rate", 2, summary=True)
    trained = symbf.get_scalar_var("gain", 3, trainable=True)
    assert tf.trainable_variables() == [trained]
    session8.run(tf.global_variables_initializer())
    assert session8.run([rate, trained]) == [2, 3]
    assert read_summaries(session8) == {"rate-summary": 2}


def test_print_stat_prints_what_it_returns(session8: Any, capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.constant([[3.0, -4.0], [0.0, 5.0]], name="x")
    np.testing.assert_array_equal(session8.run(symbf.print_stat(x)), session8.run(x))
    assert capfd.readouterr().err == "x: shape [2 2] mean 1 rms 3.53553391 values [3 -4 0 5]\n"
    session8.run(symbf.print_stat(tf.constant([1, 2]), "counts"))
    assert capfd.readouterr().err == "counts: shape [2] mean 1 values [1 2]\n"
