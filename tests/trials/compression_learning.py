"""Whether two workers learn the digits whatever travels between them: three seeds of each choice, beside plain ones.

    python -m tests.trials.compression_learning [--data digits | images] [--choices NAME...] [--epochs N] [--seeds N]

A perceptron learns 1,197 of scikit-learn's digits, and is tried on the other 600, in two processes of batches of 16
each; with ``--data images`` a network of three convolutions learns 1,200 made images of 16 x 16 in three colours: ten
blurred patterns, moved and with noise. Plain gradients are to reach what `WANTED` says; each choice may lose so much of
the mean accuracy of plain gradients as `MARGINS` says, which was written down before the first run. After each training
the weights of both workers are to be equal bit by bit. It prints a line for each choice, and ends with 1 if one of them
loses more, or a weight differs.

One image is 0.0017. The mean of three accuracies of 0.97 has a deviation of 0.004 if images are drawn each time; here
they are the same ones, and so are first weights and batches. So 0.01 is the margin of what leaves numbers out or comes
seldom, and 0.005 of what rounds. Dividing the state of the optimizer loses nothing.
"""

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.dataflow.arrays import DataFromArrays
from tpack.dataflow.batch import BatchData
from tpack.graph_builder.model_desc import ModelDesc
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config

WANTED = {"digits": 0.96, "images": 0.9}
PLAIN = "plain"
MARGINS = {
    PLAIN: 0.0,
    "shard_optimizer": 0.0,
    "float16": 0.005,
    "bfloat16": 0.005,
    "int8": 0.005,
    "one_bit": 0.01,
    "top_k:0.01": 0.01,
    "power_sgd:4": 0.01,
    "adasum": 0.01,
    "accumulate=4": 0.01,
    "accumulate=4, int8": 0.01,
    "sync_every_steps=8": 0.01,
    "sync_every_steps=8, outer": 0.01,
}
"""By how much the mean accuracy of a choice may be less than that of plain gradients."""
RATES, EPOCHS = {"digits": 0.02, "images": 0.01}, {"digits": 20, "images": 40}
MOMENTUM, WIDTH, BATCH, STEPS, TRAINING, VALIDATION = 0.9, 256, 16, 32, 1200, 600
CHANNELS = (16, 32, 64)
SLOW_MOMENTUM = (1.0, 0.5)
"""Rate and momentum of the outer optimizer, as in SlowMo.

DiLoCo's 0.7 and Nesterov's 0.9, for towers that use AdamW for hundreds of steps, are too much beside an inner momentum
of 0.9: the same loss of three points comes of a training in numpy alone.
"""
SIZE, NOISE = 16, 1.8
LIMIT_SECS = 1800.0
"""How long a training may take on a machine that others use."""


def arguments_of(choice: str) -> dict[str, Any]:
    """Return the arguments of the trainer."""
    if choice == PLAIN:
        return {}
    if choice == "shard_optimizer":
        return {"shard_optimizer": True}
    if choice.startswith("accumulate=4"):
        return {"accumulate": 4, "exchange": "int8" if choice.endswith("int8") else None}
    if choice.startswith("sync_every_steps=8"):
        outer = tf.train.MomentumOptimizer(*SLOW_MOMENTUM) if choice.endswith("outer") else None
        return {"sync_every_steps": 8, "outer_optimizer": outer}
    return {"exchange": choice}


def rate_of(data: str, choice: str) -> float:
    """Return the learning rate: for batches four times as large it is four times as high."""
    return RATES[data] * 4 if choice.startswith("accumulate=4") else RATES[data]


class Classifier(ModelDesc):
    """Layers whose matrices are large enough to be encoded, and a softmax of ten classes."""

    image: tuple[int, ...] = (64,)

    def __init__(self, rate: float, seed: int) -> None:
        self._rate, self._seed = rate, seed

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, *self.image], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def weights(self, number: int, shape: list[int]) -> tuple[tf.Variable, tf.Variable]:
        """Make the matrix and the bias of a layer."""
        first = tf.random_normal_initializer(stddev=np.sqrt(2 / np.prod(shape[:-1])), seed=100 * self._seed + number)
        zeros = tf.zeros_initializer()
        return tf.get_variable(f"W{number}", shape, initializer=first), tf.get_variable(
            f"b{number}", shape[-1:], initializer=zeros
        )

    def logits(self, image: tf.Tensor) -> tf.Tensor:
        """Return [B, 10] for images: two hidden layers."""
        features = image
        for number, width in enumerate([WIDTH, WIDTH, 10]):
            weights, bias = self.weights(number, [int(features.shape[1]), width])
            features = tf.matmul(tf.nn.relu(features) if number else features, weights) + bias
        return features

    def build_graph(self, image: Any, label: Any) -> Any:
        features = self.logits(image)
        tf.cast(tf.nn.in_top_k(features, label, k=1), tf.float32, name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=features)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(self._rate, MOMENTUM)


class Convolutions(Classifier):
    """Three convolutions, the mean of the last, and a softmax."""

    image = (SIZE, SIZE, 3)

    def logits(self, image: tf.Tensor) -> tf.Tensor:
        """Return [B, 10] for images."""
        features = image
        for number, channels in enumerate(CHANNELS):
            filters, bias = self.weights(number, [3, 3, int(features.shape[3]), channels])
            stride = 2 if number else 1
            features = tf.nn.relu(
                tf.nn.conv2d(features, filters, strides=[1, stride, stride, 1], padding="SAME") + bias
            )
        weights, bias = self.weights(len(CHANNELS), [CHANNELS[-1], 10])
        return tf.matmul(tf.reduce_mean(features, [1, 2]), weights) + bias


class Weights(Callback):
    """Keeps a checksum of this worker's weights after the last epoch."""

    _chief_only = False
    checksum = ""

    def _trigger_epoch(self) -> None:
        values = self.trainer.sess.run(tf.trainable_variables())
        self.checksum = hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()


def digits() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return images and labels to train on, and others to try it on."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images.astype(np.float32) / 16, labels.astype(np.int32), test_size=VALIDATION, stratify=labels, random_state=0
    )
    return [parts[0], parts[2]], [parts[1], parts[3]]


def images() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return made images and labels to train on, and others to try the network on."""
    chance = np.random.default_rng(0)
    spectrum = np.fft.rfft2(chance.normal(size=(10, SIZE, SIZE, 3)), axes=(1, 2))
    spectrum[:, 4:-3], spectrum[:, :, 4:] = 0, 0
    patterns = np.fft.irfft2(spectrum, s=(SIZE, SIZE), axes=(1, 2))
    patterns /= patterns.std(axis=(1, 2, 3), keepdims=True)
    labels = np.arange(TRAINING + VALIDATION) % 10
    moved = np.stack([np.roll(patterns[label], chance.integers(-2, 3, 2), (0, 1)) for label in labels])
    made = (moved + NOISE * chance.normal(size=moved.shape)).astype(np.float32)
    whole = [made, labels.astype(np.int32)]
    return [each[:TRAINING] for each in whole], [each[TRAINING:] for each in whole]


MODELS = {"digits": (digits, Classifier), "images": (images, Convolutions)}


def learn(data: str, choice: str, seed: int, epochs: int) -> tuple[list[float], str]:
    """Train as one of two workers.

    Returns:
        The validation accuracy after each epoch, at the chief, and a checksum of the weights.
    """
    rank = int(os.environ["RANK"])
    load, model = MODELS[data]
    training, validation = load()
    chance = np.random.default_rng(seed)
    own = chance.permutation(len(training[1]))[rank::2]
    passes = -(-epochs * STEPS * BATCH // len(own))
    order = np.concatenate([chance.permutation(own) for _ in range(passes)])
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        flow = BatchData(DataFromArrays([each[order] for each in training], shuffle=False), BATCH)
        tried = BatchData(DataFromArrays(validation, shuffle=False), 60)
        trainer, weights = MultiWorkerTrainerReplicated(1, **arguments_of(choice)), Weights()
        config = TrainConfig(
            model=model(rate_of(data, choice), seed),
            dataflow=flow,
            callbacks=[InferenceRunner(tried, ScalarStats(["accuracy"])), weights],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=STEPS,
            max_epoch=epochs,
        )
        launch_train_with_config(config, trainer)
    of_epochs = [float(row["validation_accuracy"]) for row in trainer.history if "validation_accuracy" in row]
    return of_epochs, weights.checksum


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits", choices=list(MODELS))
    parser.add_argument("--choices", nargs="+", default=list(MARGINS), choices=list(MARGINS))
    parser.add_argument("--epochs", type=int, help="by default 20, of images 40")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    faults, plain, wanted = [], 0.0, WANTED[options.data]
    for choice in dict.fromkeys([PLAIN, *options.choices]):
        learnt, weights = _learnt(options.data, choice, options.seeds, options.epochs or EPOCHS[options.data])
        accuracy = float(np.mean([each[-1] for each in learnt]))
        plain = accuracy if choice == PLAIN else plain
        first = [next((n + 1 for n, each in enumerate(of_epochs) if each >= wanted), None) for of_epochs in learnt]
        found = []
        if accuracy < plain - MARGINS[choice] or (choice == PLAIN and accuracy < wanted):
            found.append("loses too much")
        if any(len(set(each)) > 1 for each in weights):
            found.append("the workers' weights differ")
        faults += [choice] if found else []
        each_seed = ", ".join(f"{each[-1]:.4f}" for each in learnt)
        print(
            f"{choice}: {accuracy:.4f} ({each_seed}), {accuracy - plain:+.4f} of {-MARGINS[choice]:+.3f}; "
            f"{wanted} after epochs {first}{''.join(f'; {each.upper()}' for each in found)}",
            flush=True,
        )
    print(f"{len(faults)} choices with a fault: {faults}")
    return int(bool(faults))


def _learnt(data: str, choice: str, seeds: int, epochs: int) -> tuple[list[list[float]], list[tuple[str, ...]]]:
    """Train in two processes; return the accuracies of each seed, and the checksums of both workers' weights."""
    name = "tests.trials.compression_learning"
    of_seeds, checksums = [], []
    for seed in range(seeds):
        arguments = {"data": data, "choice": choice, "seed": seed, "epochs": epochs}
        with tempfile.TemporaryDirectory() as folder:
            job = {"arguments": arguments, "preload": name, "limit_secs": LIMIT_SECS}
            chief, other = values_of(run_workers(f"{name}.learn", 2, Path(folder), **job))
        of_seeds.append(chief[0])
        checksums.append((chief[1], other[1]))
    return of_seeds, checksums


if __name__ == "__main__":
    sys.exit(main())
