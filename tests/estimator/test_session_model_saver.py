"""Checkpoints go into variables of their shapes only."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tpack.errors import CheckpointError
from tpack.estimator.session import WholeModelSaver


def test_saves_and_restores(session8, tmp_path):
    variable = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=True)
    saver = WholeModelSaver(max_to_keep=1)
    saver.build()
    session8.run(variable.initializer)
    paths = [saver.save(session8, str(tmp_path / "model"), global_step=step) for step in (1, 2)]
    assert not (tmp_path / "model-1.index").exists()
    session8.run(variable.assign([5.0, 6.0]))
    saver.restore(session8, paths[1])
    assert session8.run(variable).tolist() == [1, 1]


def test_other_shapes_are_refused(session8, tmp_path):
    fits = tf.get_variable("fits", [], initializer=tf.zeros_initializer(), use_resource=True)
    tf.get_variable("v", [], use_resource=True)
    saver = WholeModelSaver()
    saver.build()
    session8.run(fits.initializer)
    path = save_checkpoint(tmp_path, {"v": [1.0, 2.0], "fits": 3.0})
    with pytest.raises(CheckpointError, match=r"does not fit the model: v has the shape \[2\] in it, and \(\) in"):
        saver.restore(session8, path)
    assert session8.run(fits) == 0
