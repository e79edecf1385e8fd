"""Whether two workers learn the digits whatever travels between them: three seeds of each choice, beside plain ones.

    python -m tests.trials.compression_learning [--choices NAME...] [--epochs N] [--seeds N]

A perceptron learns 1,197 of scikit-learn's digits, and is tried on the other 600, in two processes of batches of 16
each. Plain gradients are to reach `WANTED`; each choice may lose so much of the mean accuracy of plain gradients as
`MARGINS` says, which was written down before the first run. After each training the weights of both workers are to be
equal bit by bit. It prints a line for each choice, and ends with 1 if one of them loses more, or a weight differs.

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

WANTED = 0.96
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
RATE, MOMENTUM, WIDTH, BATCH, STEPS, VALIDATION = 0.02, 0.9, 256, 16, 32, 600


def arguments_of(choice: str) -> dict[str, Any]:
    """Return the arguments of the trainer."""
    if choice == PLAIN:
        return {}
    if choice == "shard_optimizer":
        return {"shard_optimizer": True}
    if choice.startswith("accumulate=4"):
        return {"accumulate": 4, "exchange": "int8" if choice.endswith("int8") else None}
    if choice.startswith("sync_every_steps=8"):
        outer = tf.train.MomentumOptimizer(0.7, 0.9, use_nesterov=True) if choice.endswith("outer") else None
        return {"sync_every_steps": 8, "outer_optimizer": outer}
    return {"exchange": choice}


def rate_of(choice: str) -> float:
    """Return the learning rate: for batches four times as large it is four times as high."""
    return RATE * 4 if choice.startswith("accumulate=4") else RATE


class Perceptron(ModelDesc):
    """Two hidden layers, whose matrices are large enough to be encoded."""

    def __init__(self, rate: float, seed: int) -> None:
        self._rate, self._seed = rate, seed

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, 64], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image: Any, label: Any) -> Any:
        features = image
        for number, width in enumerate([WIDTH, WIDTH, 10]):
            inputs = int(features.shape[1])
            first = tf.random_normal_initializer(stddev=np.sqrt(2 / inputs), seed=100 * self._seed + number)
            weights = tf.get_variable(f"W{number}", [inputs, width], initializer=first)
            bias = tf.get_variable(f"b{number}", [width], initializer=tf.zeros_initializer())
            features = tf.matmul(tf.nn.relu(features) if number else features, weights) + bias
        tf.cast(tf.nn.in_top_k(features, label, k=1), tf.float32, name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=features)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(self._rate, MOMENTUM)


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


def learn(choice: str, seeds: int, epochs: int) -> list[tuple[list[float], str]]:
    """Train with each seed, as one of two workers.

    Returns:
        For each seed the validation accuracy after each epoch, at the chief, and a checksum of the weights.
    """
    return [_train(choice, seed, epochs) for seed in range(seeds)]


def _train(choice: str, seed: int, epochs: int) -> tuple[list[float], str]:
    rank = int(os.environ["RANK"])
    training, validation = digits()
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
            model=Perceptron(rate_of(choice), seed),
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
    parser.add_argument("--choices", nargs="+", default=list(MARGINS), choices=list(MARGINS))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    faults, plain = [], 0.0
    for choice in dict.fromkeys([PLAIN, *options.choices]):
        learnt, weights = _learnt(choice, options.seeds, options.epochs)
        accuracy = float(np.mean([each[-1] for each in learnt]))
        plain = accuracy if choice == PLAIN else plain
        first = [next((n + 1 for n, each in enumerate(of_epochs) if each >= WANTED), None) for of_epochs in learnt]
        found = []
        if accuracy < plain - MARGINS[choice] or (choice == PLAIN and accuracy < WANTED):
            found.append("loses too much")
        if any(len(set(each)) > 1 for each in weights):
            found.append("the workers' weights differ")
        faults += [choice] if found else []
        each_seed = ", ".join(f"{each[-1]:.4f}" for each in learnt)
        print(
            f"{choice}: {accuracy:.4f} ({each_seed}), {accuracy - plain:+.4f} of {-MARGINS[choice]:+.3f}; "
            f"{WANTED} after epochs {first}{''.join(f'; {each.upper()}' for each in found)}",
            flush=True,
        )
    print(f"{len(faults)} choices with a fault: {faults}")
    return int(bool(faults))


def _learnt(choice: str, seeds: int, epochs: int) -> tuple[list[list[float]], list[tuple[str, ...]]]:
    """Train in two processes; return the accuracies of each seed, and the checksums of both workers' weights."""
    name = "tests.trials.compression_learning"
    arguments = {"choice": choice, "seeds": seeds, "epochs": epochs}
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_workers(f"{name}.learn", 2, Path(folder), arguments=arguments, preload=name)
    values = values_of(outcomes)
    return [accuracies for accuracies, _ in values[0]], list(zip(*([c for _, c in own] for own in values), strict=True))


if __name__ == "__main__":
    sys.exit(main())
