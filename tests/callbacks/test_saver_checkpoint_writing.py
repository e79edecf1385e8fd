import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.claims import claimed_elsewhere
from tpack.callbacks.saver import claim_checkpoint_dir, make_saver
from tpack.errors import CallbackError, ConfigError
from tpack.utils.remote.directories import finish_directories, open_directory


def test_directory_is_the_given_one_or_the_loggers(log_dir, tmp_path):
    assert claim_checkpoint_dir("it", str(tmp_path / "new" / "deep")).directory == str(tmp_path / "new" / "deep")
    assert (tmp_path / "new" / "deep").is_dir()
    assert claim_checkpoint_dir("it", None).directory == str(log_dir)
    assert claim_checkpoint_dir("it", f"file://{tmp_path}/url").directory == str(tmp_path / "url")


def test_directory_that_another_process_trains_in_is_an_error(tmp_path):
    with claimed_elsewhere(tmp_path) as pid, pytest.raises(ConfigError, match=f"is in use: process {pid} on "):
        claim_checkpoint_dir("it", str(tmp_path))


def test_url_that_is_none_is_an_error_and_no_directory_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="'nope://bucket' cannot be used: Protocol not known: nope"):
        claim_checkpoint_dir("it", "nope://bucket")
    assert not list(tmp_path.iterdir())


def test_remote_directory_is_written_by_way_of_one_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    claim = claim_checkpoint_dir("it", f"local://{tmp_path}/there")
    with open(os.path.join(claim.directory, "model-1.index"), "w") as file:
        file.write("content")
    finish_directories()
    assert (tmp_path / "there" / "model-1.index").read_text() == "content"
    open_directory(f"local://{tmp_path}/there").end()


def test_no_directory_is_an_error():
    with pytest.raises(
        CallbackError, match="it got checkpoint_dir=None: expected a directory; use log_dir of TrainConfig or fit, or"
    ):
        claim_checkpoint_dir("it", None)


def test_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"the directory {tmp_path}/file/x cannot be written to: "):
        claim_checkpoint_dir("it", str(tmp_path / "file" / "x"))


def test_saver_has_each_variable_once(graph):
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    saver = make_saver("it", [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES])
    assert saver._var_list == [variable]


def test_nothing_to_save_is_an_error(graph):
    with pytest.raises(CallbackError, match="it got no variables in a, b: expected at least one"):
        make_saver("it", ["a", "b"])
