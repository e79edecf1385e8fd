"""A GAN with two optimizers in a trainer of its own, on one tower and on four, and samples of what it learned."""

import cv2
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

dcgan = load_example("dcgan")


@pytest.mark.parametrize("num_towers", [1, 4])
def test_dcgan_learns_what_digits_look_like(num_towers, tmp_path):
    run = run_script(dcgan.main, tmp_path / "train", "--towers", num_towers, "--epochs", 3)

    assert f"{num_towers} towers" in run.log
    assert {"GAN_loss/g_loss", "GAN_loss/d_loss", "GAN_loss/accuracy_real", "GAN_loss/accuracy_fake"} <= set(run.last)
    assert [entry["learning_rate"] for entry in run.stats] == pytest.approx([4e-3, 2e-3, 2e-3])
    checkpoint = run.log_dir / "model-90"
    names = {name for name, _ in tf.train.list_variables(str(checkpoint))}
    # Each part has the slots of its own optimizer and of no other.
    assert {"gen/fc0/W", "gen/deconv1/bn/mean/EMA", "gen/fc0/W/g_adam_1"} <= names
    assert {"discrim/conv1/W", "discrim/in1/gamma", "discrim/fct/W/d_adam_1"} <= names
    assert not [name for name in names if name.startswith("tower") or name.startswith("discrim") and "g_adam" in name]

    sampled = run_script(dcgan.main, tmp_path / "sample", "--sample", "--load", checkpoint)
    images = sampled.result[..., 0] / 255
    assert images.shape == (500, 8, 8)
    assert images.min() >= 0
    assert images.max() <= 1
    # The average sample looks like the average digit, and the samples differ.
    correlation, spread = dcgan.likeness(sampled.result)
    assert correlation > 0.6
    assert spread == pytest.approx(images.std(axis=0).mean(), rel=1e-5)
    assert spread > 0.05
    grid = cv2.imread(str(sampled.log_dir / "samples.png"))
    assert min(grid.shape[:2]) >= 40
