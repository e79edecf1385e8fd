"""Whether a residual network learns the digits with each optimizer and wrapper, and resumes to the same bits.

    python -m tests.trials.optimizers_learning [--cases NAME...] [--epochs N]

ResNet-8 with batch normalisation and dropout learns 1,437 of scikit-learn's digits in two replicated towers of batches
of 32, and is tried on the other 360; each run is a process of its own. A case may lose so much of the accuracy of its
base as `CASES` says, which was written down before the first run. A second training of each case is ended after half of
the epochs and resumed: its weights are to equal the uninterrupted one's to the last bit.

The data of ``spike`` and ``spike, guarded`` have two batches of images that are 3,000 times as bright, with wrong
labels. Without a guard the training must end with weights that are not finite, or the case proves nothing. `Recompute`
is to end with the bits of its base. It prints a line for each case, and ends with 1 if one of them fails.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tpack
from tests.helpers.source import ROOT
from tpack.tfutils import gradproc
from tpack.tfutils.optimizer import apply_grad_processors

TOWERS, BATCH, STEPS, EPOCHS, VALIDATION, LIMIT_SECS = 2, 32, 22, 8, 360, 1200.0
SPIKES = (61, 62)
"""Steps whose batches are wrong, after the guard's warm-up."""


@dataclass(frozen=True)
class Case:
    """An optimizer, and what it is compared with."""

    optimizer: Callable[[], Any]
    base: str = "adamw"
    margin: float = 0.03
    is_spiked: bool = False
    fails: bool = False
    is_same: bool = False


def momentum() -> Any:
    """Return the optimizer that the spikes ruin."""
    return tf.train.MomentumOptimizer(0.03, 0.9)


def guard(on_spike: str) -> Callable[[], Any]:
    """Return a function that makes a guarded optimizer."""
    return lambda: tpack.SpikeGuard(momentum(), on_spike=on_spike, warmup_steps=40)


CASES = {
    "adamw": Case(lambda: tpack.AdamW(2e-3)),
    "muon": Case(lambda: tpack.Muon(2e-3, by_adam=["^head/"])),
    "adafactor": Case(lambda: tpack.Adafactor(2e-3)),
    "sam": Case(lambda: tpack.SAM(tpack.AdamW(2e-3), rho=0.05)),
    "lookahead": Case(lambda: tpack.Lookahead(tpack.AdamW(2e-3), sync_period=6)),
    "recompute": Case(lambda: tpack.Recompute(tpack.AdamW(2e-3), "group[0-9]"), is_same=True),
    "unfreeze": Case(lambda: tpack.Unfreeze(tpack.AdamW(2e-3), {0: ["^head/", "^group2/"], 1: ".*"}), margin=0.05),
    "adaptive_clip": Case(lambda: apply_grad_processors(tpack.AdamW(2e-3), [gradproc.AdaptiveClip(0.05)]), margin=0.05),
    "momentum": Case(momentum, "momentum"),
    "spike": Case(momentum, "momentum", is_spiked=True, fails=True),
    "spike, guarded": Case(guard("skip"), "momentum", is_spiked=True),
    "spike, rolled back": Case(guard("rollback"), "momentum", margin=0.05, is_spiked=True),
}


class Digits(tpack.ModelDesc):
    """Three residual blocks of two convolutions, and a softmax of ten classes."""

    def __init__(self, optimizer: Callable[[], Any]) -> None:
        self._optimizer = optimizer

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, 8, 8, 1], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image: Any, label: Any) -> Any:
        features = tpack.Conv2D("first", image, 16, 3, use_bias=False)
        for number, channels in enumerate([16, 32, 64]):
            with tf.variable_scope(f"group{number}"):
                features = _block(features, channels, stride=2 if number else 1)
        features = tf.reduce_mean(features, [1, 2])
        features = tpack.Dropout("drop", features, rate=0.2)
        logits = tpack.FullyConnected("head", features, 10)
        tf.cast(tf.nn.in_top_k(logits, label, k=1), tf.float32, name="accuracy")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self) -> Any:
        return self._optimizer()


def _block(features: tf.Tensor, channels: int, stride: int) -> tf.Tensor:
    inner = tpack.Conv2D("conv1", features, channels, 3, strides=stride, use_bias=False)
    inner = tf.nn.relu(tpack.BatchNorm("bn1", inner))
    inner = tpack.BatchNorm("bn2", tpack.Conv2D("conv2", inner, channels, 3, use_bias=False))
    if int(features.shape[3]) != channels:
        features = tpack.Conv2D("shortcut", features, channels, 1, strides=stride, use_bias=False)
    return tf.nn.relu(inner + features)


def _data(*, is_spiked: bool) -> tuple[Any, Any]:
    """Return flows of batches to train on and to validate on."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8, 1).astype(np.float32) / 16
    parts = train_test_split(images, labels.astype(np.int32), test_size=VALIDATION, stratify=labels, random_state=0)
    training = tpack.BatchData(tpack.DataFromArrays([parts[0], parts[2]]), BATCH)
    if is_spiked:
        training = _Spiked(training)
    return training, tpack.BatchData(tpack.DataFromArrays([parts[1], parts[3]], shuffle=False), 60)


class _Spiked(tpack.ProxyDataFlow):
    """Makes the batches of some steps wrong; each step takes one for each tower."""

    def __iter__(self) -> Any:
        for image, label in self.ds:
            number = _Spiked.passed // TOWERS + 1
            _Spiked.passed += 1
            yield [image * 3000, (label + 1) % 10] if number in SPIKES else [image, label]

    passed = 0


class _Weights(tpack.Callback):
    """Keeps a checksum of the first tower's weights."""

    checksum = ""

    def _trigger_epoch(self) -> None:
        values = self.trainer.sess.run([each for each in tf.trainable_variables() if not each.name.startswith("tower")])
        self.checksum = hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()


def train(name: str, epochs: int, log_dir: str) -> None:
    """Train in this process, from the last checkpoint of the directory, and print accuracy and a checksum as JSON."""
    case = CASES[name]
    training, validation = _data(is_spiked=case.is_spiked)
    weights = _Weights()
    config = tpack.AutoResumeTrainConfig(
        model=Digits(case.optimizer),
        dataflow=training,
        callbacks=[tpack.ModelSaver(), tpack.InferenceRunner(validation, tpack.ScalarStats(["accuracy"])), weights],
        steps_per_epoch=STEPS,
        max_epoch=epochs,
        log_dir=log_dir,
        seed=1,
    )
    with tf.Graph().as_default():
        tpack.launch_train_with_config(config, tpack.SyncMultiGPUTrainerReplicated(TOWERS))
    rows = tpack.JSONWriter.load_existing_json()
    print(json.dumps({"accuracy": rows[-1]["validation_accuracy"], "checksum": weights.checksum}))


def _run(name: str, epochs: int, log_dir: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.trials.optimizers_learning", "--train", name, str(epochs), str(log_dir)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECS, check=False)
    if done.returncode:
        return {"accuracy": float("nan"), "checksum": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def try_case(name: str, epochs: int, found: dict[str, dict[str, Any]]) -> bool:
    """Train once as a whole and once in two parts; print the figures, and return whether all is as it should be."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as directory:
        whole = found[name] = _run(name, epochs, Path(directory, "whole"))
        is_resumed = not case.is_spiked
        if is_resumed:
            _run(name, epochs // 2, Path(directory, "parts"))
            parts = _run(name, epochs, Path(directory, "parts"))
    base = found[case.base]
    lost = base["accuracy"] - whole["accuracy"]
    is_right = whole["checksum"].startswith("tpack.errors.NumericsError") if case.fails else lost <= case.margin
    told = [f"accuracy {whole['accuracy']:.3f}, {lost:+.3f} lost"]
    if np.isnan(lost):
        told.append(f"ended by {whole['checksum']:.80}")
    if is_resumed:
        is_right &= parts == whole
        told.append("resumed to the same bits" if parts == whole else f"resumed to others: {parts}")
    if case.is_same:
        is_right &= base["checksum"] == whole["checksum"]
        told.append("the bits of its base" if base["checksum"] == whole["checksum"] else "other bits than its base")
    print(f"{'right' if is_right else 'WRONG'}  {name}: {', '.join(told)}", flush=True)
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--train", nargs=3, metavar=("NAME", "EPOCHS", "DIR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        name, epochs, directory = options.train
        train(name, int(epochs), directory)
        return 0
    found: dict[str, dict[str, Any]] = {}
    bases = {CASES[name].base for name in options.cases} - set(options.cases)
    return int(not all([try_case(name, options.epochs, found) for name in [*sorted(bases), *options.cases]]))


if __name__ == "__main__":
    sys.exit(main())
