"""The two classifiers that people begin with, linear and with hidden layers, written as model_fns for the digits."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

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
