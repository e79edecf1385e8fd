"""The classic classifiers learn the digits on one device and on several, and plain TensorFlow serves them."""

import shutil
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

from tests.helpers import preloaded
from tests.helpers.replicated_models import devices
from tests.helpers.source import ROOT
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import ServingInputReceiver, build_parsing_serving_input_receiver_fn
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import ClassificationOutput, EstimatorSpec, ModeKeys, PredictOutput
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.models.dropout import Dropout
from tpack.models.fc import FullyConnected

NUM_CLASSES = 10
NUM_TEST = 360


def digits(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images of 64 numbers in [0, 1], and labels, for ``train`` or ``test``."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    order = order[:NUM_TEST] if part == "test" else order[NUM_TEST:]
    return (images[order] / 16).astype("float32"), labels[order].astype("int32")


def input_fn(mode: str) -> Any:
    """Batches of 40, shuffled and for ever in training, else the test set in its order."""
    images, labels = digits("train" if mode == ModeKeys.TRAIN else "test")
    dataset = tf.data.Dataset.from_tensor_slices(({"image": images}, labels))
    if mode == ModeKeys.TRAIN:
        dataset = dataset.shuffle(2000, seed=1).repeat()
    return dataset.batch(40)


def linear_classifier(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    """Softmax regression."""
    weights = tf.get_variable("weights", [64, NUM_CLASSES], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [NUM_CLASSES], initializer=tf.zeros_initializer())
    return _head(tf.matmul(features["image"], weights) + bias, labels, mode, params)


def dnn_classifier(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    """Hidden layers of tpack, one with dropout, which asks its tower whether it trains."""
    hidden = features["image"]
    for index, units in enumerate(params["hidden_units"]):
        hidden = FullyConnected(f"hidden{index}", hidden, units, activation=tf.nn.relu)
    hidden = Dropout(hidden, rate=0.1)
    return _head(FullyConnected("logits", hidden, NUM_CLASSES), labels, mode, params)


def _head(logits: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    probabilities = tf.nn.softmax(logits, name="probabilities")
    class_ids = tf.argmax(logits, axis=1, output_type=tf.int32)
    predictions = {"probabilities": probabilities, "class_ids": class_ids}
    if mode == ModeKeys.PREDICT:
        names = tf.constant([str(k) for k in range(NUM_CLASSES)])
        classes = tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1])
        outputs = {
            "serving_default": ClassificationOutput(probabilities, classes),
            "predict": PredictOutput(predictions),
        }
        return EstimatorSpec(mode, predictions, export_outputs=outputs)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    if mode == ModeKeys.TRAIN:
        optimizer = TowerOptimizer(tf.train.AdamOptimizer(params["learning_rate"]))
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))
    metrics = {
        "accuracy": tf.metrics.accuracy(labels, class_ids),
        "average_loss": tf.metrics.mean(losses),
        "sevens_found": tf.metrics.true_positives(tf.equal(labels, 7), tf.equal(class_ids, 7)),
        "precision_of_sevens": tf.metrics.precision(tf.equal(labels, 7), tf.equal(class_ids, 7)),
        "iou": tf.metrics.mean_iou(labels, class_ids, NUM_CLASSES),
        "auc_of_sevens": tf.metrics.auc(tf.equal(labels, 7), probabilities[:, 7]),
        "rmse": tf.metrics.root_mean_squared_error(tf.one_hot(labels, NUM_CLASSES), probabilities),
    }
    return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)


MODELS = {
    "linear": (linear_classifier, {"learning_rate": 0.05}, 0.93),
    "dnn": (dnn_classifier, {"learning_rate": 0.01, "hidden_units": [48, 24]}, 0.94),
}
# Sums of ones, and what is computed of them alone.
COUNTS = ("accuracy", "sevens_found", "precision_of_sevens", "iou", "global_step")
MEANS = ("average_loss", "auc_of_sevens", "rmse", "loss")


def make(name, model_dir, num_towers=0):
    model_fn, params, _ = MODELS[name]
    if num_towers:
        model_fn = replicate_model_fn(model_fn, devices=devices(num_towers))
    return Estimator(model_fn, str(model_dir), RunConfig(tf_random_seed=3, save_checkpoints_secs=None), params)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Each model, trained on two towers: the directories of its checkpoints by name."""
    directories = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    for name, directory in directories.items():
        config = RunConfig(tf_random_seed=3, save_checkpoints_steps=1000)
        model_fn, params, _ = MODELS[name]
        replicated = replicate_model_fn(model_fn, devices=devices(2))
        Estimator(replicated, str(directory), config, params).train(input_fn, steps=300)
    return directories


def test_metrics_on_eight_towers_are_those_on_one(trained):
    one = make("linear", trained["linear"]).evaluate(input_fn)
    eight = make("linear", trained["linear"], 8).evaluate(input_fn)
    assert one["accuracy"] > MODELS["linear"][2]
    assert one["global_step"] == 300
    assert one.keys() == eight.keys() == {*COUNTS, *MEANS}
    for key in COUNTS:
        assert eight[key] == one[key], key
    for key in MEANS:
        np.testing.assert_allclose(eight[key], one[key], rtol=1e-6, atol=1e-6, err_msg=key)


def receive():
    """Serialized examples, or images as they are."""
    parsed = build_parsing_serving_input_receiver_fn({"image": tf.FixedLenFeature([64], tf.float32)})()
    return ServingInputReceiver(parsed.features, parsed.receiver_tensors, {"raw": dict(parsed.features)})


def test_plain_tensorflow_serves_them(trained, tmp_path):
    images, labels = digits("test")
    np.save(tmp_path / "image.npy", images)
    expected = {}
    for name, directory in trained.items():
        estimator = make(name, directory)
        path = estimator.export_saved_model(str(tmp_path / "exported" / name), receive)
        (tmp_path / "models").mkdir(exist_ok=True)
        shutil.move(path, tmp_path / "models" / name)
        expected[name] = list(estimator.predict(input_fn))
    preloaded.run(ROOT / "tests" / "helpers" / "serve_saved_model.py", [tmp_path], cwd=tmp_path).check_returncode()
    answers = np.load(tmp_path / "answers.npz")
    for name, rows in expected.items():
        probabilities = np.array([row["probabilities"] for row in rows])
        for key in ("serving_default/scores", "predict/probabilities", "predict:raw/probabilities"):
            np.testing.assert_allclose(answers[f"{name}/{key}"], probabilities, rtol=1e-4, atol=1e-6, err_msg=key)
        assert answers[f"{name}/serving_default/classes"][0].tolist() == [str(k).encode() for k in range(10)]
        assert (answers[f"{name}/predict:raw/class_ids"] == [row["class_ids"] for row in rows]).all()
        assert (answers[f"{name}/predict/class_ids"] == labels).mean() > MODELS[name][2]
