"""Keras 3 layers in the tower function of a script: they learn, and are saved under the names of the main tower."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.examples import load_example
from tests.helpers.run_script import run_script

keras_in_tower = load_example("keras_in_tower")
TRAINED = {
    *("stem/kernel", "stem/bias", "norm/gamma", "norm/beta", "own/W", "own/b"),
    *("head/hidden/kernel", "head/hidden/bias", "head/logits/kernel", "head/logits/bias"),
}


@pytest.mark.parametrize(("trainer", "num_towers"), [("simple", 1), ("replicated", 2), ("parameter-server", 2)])
def test_keras_layers_learn_with_every_trainer(trainer, num_towers, tmp_path):
    run = run_script(keras_in_tower.main, tmp_path, "--trainer", trainer, "--towers", num_towers, "--epochs", 4)

    assert run.last["validation_error"] < 0.15
    assert run.last["wd"] > 0
    reader = tf.train.load_checkpoint(str(run.log_dir / "model-88"))
    names = set(reader.get_variable_to_shape_map())
    assert names >= TRAINED | {"norm/moving_mean", "norm/moving_variance"}
    assert not [name for name in names if name.startswith("tower")]
    assert (reader.get_tensor("norm/moving_mean") != 0).any()
