"""A residual network on one tower and on several, with validation on all towers and a schedule of the learning rate."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script
from tests.integration.scripts.digits_data import get_augmented_data
from tpack.dataflow import MapDataComponent

cifar_resnet = load_example("cifar_resnet")
AVERAGES = {
    f"{layer}/bn/{moment}/EMA"
    for layer in ("conv0", "res1.0/conv1", "res2.0", "res2.0/conv1", "res3.0", "res3.0/conv1", "bnlast")
    for moment in ("mean", "variance")
}


@pytest.fixture
def train(monkeypatch):
    """A function that trains a narrow network on digits."""
    monkeypatch.setattr(cifar_resnet, "SHAPE", (8, 8, 1))
    monkeypatch.setattr(cifar_resnet, "WIDTH", 8)

    def digits(train_or_test, batch, directory):
        assert directory is None
        return MapDataComponent(get_augmented_data(train_or_test, batch), lambda image: (image * 255).astype("uint8"))

    monkeypatch.setattr(cifar_resnet, "get_data", digits)

    def run(directory, trainer, towers, *more):
        return run_script(cifar_resnet.main, directory, "--towers", towers, "--trainer", trainer, *more)

    return run


@pytest.mark.parametrize(("trainer", "towers"), [("simple", 1), ("replicated", 2)])
def test_cifar_resnet_learns_on_one_tower_and_on_two(trainer, towers, train, tmp_path):
    run = train(tmp_path, trainer, towers, "--epochs", 5)

    assert run.last["validation_error"] < 0.15
    # What the schedule says for the end of an epoch is used from the next one on.
    assert [entry["learning_rate"] for entry in run.stats] == pytest.approx([0.05] * 4 + [0.005])
    assert [entry["learning_rate-summary"] for entry in run.stats] == pytest.approx([0.05] * 4 + [0.005])
    assert run.last["train_error"] == pytest.approx(1 - run.last["train_accuracy"], abs=1e-5)
    files = {path.name for path in run.log_dir.iterdir()}
    assert {"model-44.index", "model-88.index", "min-validation_error.index"} <= files
    assert "model-22.index" not in files
    saved = dict(tf.train.list_variables(str(run.log_dir / "model-88")))
    assert saved["res2.0/conv1/W"] == [3, 3, 8, 16]
    assert {name for name in saved if name.endswith("EMA") and "/bn/" in name} == AVERAGES
    assert not [name for name in saved if name.startswith("tower")]


def test_what_one_trainer_saved_another_goes_on_from(train, tmp_path):
    first = train(tmp_path / "first", "replicated", 2, "--epochs", 4)
    best = first.log_dir / "min-validation_error"
    reached = min(entry["validation_error"] for entry in first.stats)

    # One epoch with the first learning rate.
    again = train(tmp_path / "again", "parameter-server", 3, "--epochs", 1, "--load", best)
    assert again.last["validation_error"] < reached + 0.05
