"""Shared weights by two calls of one function, the same on one tower and on two; then frozen below a classifier."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

siamese = load_example("siamese")
WEIGHTS = {f"siamese/{layer}/{part}" for layer in ("conv0", "conv1", "embed") for part in "Wb"}


def read(checkpoint, names):
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in names}


def test_siamese_network_learns_distances_and_serves_a_classifier(tmp_path):
    run = run_script(siamese.main, tmp_path / "embed", "embed", "--epochs", 4)

    assert run.last["val_precision"] > 0.9
    assert run.last["val_recall"] > 0.8
    assert run.last["validation_contrastive_loss"] < run.stats[1]["validation_contrastive_loss"]
    assert all("HostFreeMemory (GB)" in entry for entry in run.stats)
    checkpoint = run.log_dir / "model-120"
    inside, between = run_script(siamese.main, tmp_path / "evaluate", "evaluate", "--load", checkpoint).result
    assert between > 3 * inside

    classifier = run_script(siamese.main, tmp_path / "classify", "classify", "--load", checkpoint, "--epochs", 4)
    assert classifier.last["validation_error"] < 0.1
    embedding = read(checkpoint, WEIGHTS)
    for name, value in read(classifier.log_dir / "model-208", WEIGHTS).items():
        np.testing.assert_array_equal(value, embedding[name], err_msg=name)
    trained = classifier.log.split("The trainable variables:")[1].split("Together")[0]
    assert "classifier/W" in trained
    assert "siamese/conv0" not in trained


def test_two_towers_learn_the_same_as_one(tmp_path):
    one, two = (
        run_script(siamese.main, tmp_path / str(num), "embed", "--towers", num, "--epochs", 2, "--steps", 8).stats
        for num in (1, 2)
    )

    for first, second in zip(one, two, strict=True):
        for name in ("validation_contrastive_loss", "val_precision", "val_recall", "wd"):
            assert first.get(name) == pytest.approx(second.get(name), abs=1e-4)
