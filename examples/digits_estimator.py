"""Recognise handwritten digits with an Estimator: one model_fn, trained on four devices, evaluated and exported.

    python examples/digits_estimator.py
    python examples/digits_estimator.py --towers 1 --steps 300   # the same training on one device
    python examples/digits_estimator.py --steps 2000             # go on from the last checkpoint

The model_fn is that of TensorFlow 1. `replicate_model_fn` divides each batch among devices, and `TowerOptimizer` adds
up what they bring. Below the model's directory, `train_log/digits_estimator`, are the checkpoints, and in `export`
a SavedModel that plain TensorFlow serves.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tpack import (
    Dropout,
    Estimator,
    EstimatorSpec,
    FullyConnected,
    ModeKeys,
    RunConfig,
    TowerOptimizer,
    replicate_model_fn,
)
from tpack.dataflow.dataset import check_labels
from tpack.estimator import build_raw_serving_input_receiver_fn

CLASSES = 10


def model_fn(features, labels, mode, params):
    """Describe the model on one device."""
    hidden = features["image"]
    for index, units in enumerate(params["hidden_units"]):
        hidden = FullyConnected(f"hidden{index}", hidden, units, activation=tf.nn.relu)
    logits = FullyConnected("logits", Dropout(hidden, rate=0.2), CLASSES)
    predictions = {"digit": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["digit"])}
        return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)

    optimizer = TowerOptimizer(tf.train.AdamOptimizer(params["learning_rate"]))
    return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))


def make_input_fns(batch):
    """Return two functions that make the data to train on, for ever, and the 360 images to evaluate on."""
    images, labels = load_digits(return_X_y=True)
    # With others the loss is an error on a CPU, and NaN on a GPU.
    check_labels(labels, CLASSES)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    split = train_test_split(images, labels, test_size=360, stratify=labels, random_state=0)
    train_images, test_images, train_labels, test_labels = split

    def train_input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(({"image": train_images}, train_labels))
        return dataset.shuffle(len(train_images)).repeat().batch(batch)

    def test_input_fn():
        return tf.data.Dataset.from_tensor_slices(({"image": test_images}, test_labels)).batch(40)

    return train_input_fn, test_input_fn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--towers", type=int, default=4, help="how many devices; a divisor of 40 (default: 4)")
    parser.add_argument("--steps", type=int, default=1000, help="the last step (default: 1000)")
    parser.add_argument("--batch", type=int, default=80, help="images a step, on all devices together (default: 80)")
    parser.add_argument("--model-dir", default="train_log/digits_estimator")
    options = parser.parse_args()
    if options.towers < 1 or 40 % options.towers or options.batch % options.towers:
        parser.error(f"batches of {options.batch} and of 40 images cannot be divided among {options.towers} devices")

    devices = [f"/gpu:{k}" for k in range(options.towers)]
    params = {"hidden_units": [128, 64], "learning_rate": 2e-3}
    estimator = Estimator(
        replicate_model_fn(model_fn, devices=devices), options.model_dir, RunConfig(tf_random_seed=0), params
    )
    train_input_fn, test_input_fn = make_input_fns(options.batch)
    estimator.train(train_input_fn, max_steps=options.steps)
    accuracy = estimator.evaluate(test_input_fn)["accuracy"]

    # Requests come one by one, so what is exported runs on one device.
    serving = Estimator(model_fn, options.model_dir, params=params)
    receive = build_raw_serving_input_receiver_fn({"image": tf.TensorSpec([None, 64], tf.float32)})
    print("Exported to", serving.export_saved_model(f"{options.model_dir}/export", receive))
    print(f"Test accuracy: {accuracy:.2%}")


if __name__ == "__main__":
    main()
