"""A residual network in NCHW, by all trainers, with validation on all towers and a schedule of the learning rate."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_script import run_script
from tests.integration.scripts import cifar_resnet

AVERAGES = {
    f"{layer}/bn/{moment}/EMA"
    for layer in ("conv0", "res1.0/conv1", "res2.0", "res2.0/conv1", "bnlast")
    for moment in ("mean", "variance")
}


def train(tmp_path, trainer, gpus, *more):
    return run_script(cifar_resnet.main, tmp_path, "--gpu", gpus, "--trainer", trainer, *more)


@pytest.mark.parametrize(("trainer", "gpus"), [("simple", "0"), ("sync", "0,1"), ("ps", "0,1"), ("async", "0,1")])
def test_cifar_resnet_learns_with_every_trainer(trainer, gpus, tmp_path):
    run = train(tmp_path, trainer, gpus, "--epochs", 5)

    assert run.last["validation_error"] < 0.15
    # What the schedule says for the end of an epoch is used from the next one on.
    assert [entry["learning_rate"] for entry in run.stats] == pytest.approx([0.01, 0.1, 0.1, 0.1, 0.01])
    assert [entry["learning_rate-summary"] for entry in run.stats] == pytest.approx([0.01, 0.1, 0.1, 0.1, 0.01])
    assert run.last["train_error"] == pytest.approx(1 - run.last["train_accuracy"], abs=1e-5)
    assert run.last["HostFreeMemory (GB)"] > 0
    files = {path.name for path in run.log_dir.iterdir()}
    assert {"model-44.index", "model-88.index", "min-validation_error.index"} <= files
    assert "model-22.index" not in files
    saved = dict(tf.train.list_variables(str(run.log_dir / "model-88")))
    assert saved["res2.0/conv1/W"] == [3, 3, 8, 16]
    assert {name for name in saved if name.endswith("EMA") and "/bn/" in name} == AVERAGES
    assert not [name for name in saved if name.startswith("tower")]


def test_what_one_trainer_saved_another_goes_on_from(tmp_path):
    first = train(tmp_path / "first", "replicated", "0,1", "--epochs", 4)
    best = first.log_dir / "min-validation_error"
    reached = min(entry["validation_error"] for entry in first.stats)

    # One epoch with the learning rate that comes before the schedule.
    again = train(tmp_path / "again", "ps", "0,1,2", "--epochs", 1, "--load", best)
    assert again.last["validation_error"] < reached + 0.05
