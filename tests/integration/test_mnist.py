"""The field's first example, trained, looked at, and begun again from what it wrote."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

mnist = load_example("mnist")
VARIABLES = {f"{layer}/{part}" for layer in ("conv0", "conv1", "conv2", "fc0", "fc1") for part in "Wb"}


def test_mnist_learns_and_goes_on_from_its_checkpoint(tmp_path):
    run = run_script(mnist.main, tmp_path, "--epochs", 3)

    assert run.log_dir.parent.name == "train_log"
    assert run.log_dir.name == "mnist"
    last = run.last
    assert last["validation_correct"] > 0.9
    assert last["val_error"] == pytest.approx(1 - last["validation_correct"])
    assert last["total_cost"] == pytest.approx(last["cross_entropy_loss"] + last["regularize_loss"])
    assert last["regularize_loss"] > 0
    assert last["lr"] == pytest.approx(3e-3 * 0.8)
    names = {"train_error", "logits-mean", "param-summary/conv0/W-rms", "SummaryGradient/conv0/W-grad-rms"}
    assert {*names, "Throughput (samples/sec)"} <= set(last)
    assert "fc0/W    (512, 128)" in run.log

    best = run.log_dir / "max-validation_correct"
    assert {name for name, _ in tf.train.list_variables(str(best))} >= VARIABLES
    again = run_script(mnist.main, tmp_path / "again", "--load", best, "--epochs", 1)
    # One epoch alone does not reach what was learned before.
    assert again.last["validation_correct"] > last["validation_correct"] - 0.04 > run.stats[0]["validation_correct"]
