import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.saver import make_saver, prepare_checkpoint_dir
from tpack.errors import CallbackError, CheckpointError


def test_directory_is_the_given_one_or_the_loggers(log_dir, tmp_path):
    assert prepare_checkpoint_dir("it", str(tmp_path / "new" / "deep")) == str(tmp_path / "new" / "deep")
    assert (tmp_path / "new" / "deep").is_dir()
    assert prepare_checkpoint_dir("it", None) == str(log_dir)


def test_no_directory_is_an_error():
    with pytest.raises(CallbackError, match="it wants a checkpoint_dir, or a directory of the logger"):
        prepare_checkpoint_dir("it", None)


def test_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=f"cannot make the directory for checkpoints {tmp_path}/file/x"):
        prepare_checkpoint_dir("it", str(tmp_path / "file" / "x"))


def test_saver_has_each_variable_once(graph):
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    saver = make_saver("it", [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES])
    assert saver._var_list == [variable]


def test_nothing_to_save_is_an_error(graph):
    with pytest.raises(CallbackError, match="it has nothing to save: no variables in the collections a, b"):
        make_saver("it", ["a", "b"])
