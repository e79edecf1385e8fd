"""Training begins with another model's values."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.sessions import cpu_session
from tpack.errors import CheckpointError, ConfigError
from tpack.estimator.building import WarmStartSettings, make_warm_start_settings, warm_start

VALUES = {"a": np.float32([1, 2]), "b": np.float32([3]), "old": np.float32([4]), "step": np.int64(9)}


def values_after(settings):
    with tf.Graph().as_default(), cpu_session() as session:
        for name, shape in [("a", [2]), ("b", [1]), ("c", [1])]:
            tf.get_variable(name, shape, initializer=tf.zeros_initializer(), use_resource=True)
        tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False, use_resource=True)
        warm_start(settings)
        session.run(tf.global_variables_initializer())
        return {
            name: np.ravel(value).tolist()
            for name, value in session.run({v.op.name: v for v in tf.global_variables()}).items()
        }


def test_variables_begin_as_settings_say(tmp_path):
    path = save_checkpoint(tmp_path, VALUES)
    some = WarmStartSettings(path, "a|b")
    assert values_after(some) == {"a": [1, 2], "b": [3], "c": [0], "step": [0]}
    renamed = WarmStartSettings(path, ".*c", var_name_to_prev_var_name={"c": "old"})
    assert values_after(renamed) == {"a": [0, 0], "b": [0], "c": [4], "step": [0]}
    any_kind = WarmStartSettings(str(tmp_path), ["step"])
    assert values_after(any_kind)["step"] == [9]


def test_settings_of_what_people_give():
    settings = WarmStartSettings("path", "w")
    assert make_warm_start_settings(None) is None
    assert make_warm_start_settings(settings) is settings
    assert make_warm_start_settings("path") == ("path", ".*", None, None)
    with pytest.raises(ConfigError, match="got warm_start_from=3: expected a path or WarmStartSettings"):
        make_warm_start_settings(3)


def test_a_checkpoint_that_is_not_there_is_refused(graph, tmp_path):
    with pytest.raises(CheckpointError, match="expected a directory with a checkpoint"):
        warm_start(WarmStartSettings(str(tmp_path)))
