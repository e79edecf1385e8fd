"""Savers whose directory another training of this process has had."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.errors import CheckpointError
from tpack.utils.remote.directories import open_directory


def train(*savers, **training):
    """Train in a graph of its own; each step adds 1 to w."""
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("score", -cb.global_step))
    with tf.Graph().as_default():
        return FakeTrainer().train([report, *savers], steps_per_epoch=2, **training)


def contents(directory):
    return {each.name: each.read_bytes() for each in directory.iterdir() if each.name != ".tpack.lock"}


def aside(directory):
    (found,) = (each for each in directory.parent.iterdir() if each.name.startswith(f"{directory.name}-"))
    return found


@pytest.mark.parametrize("saver", [ModelSaver, lambda **options: MinSaver("score", **options)], ids=["all", "best"])
def test_what_another_training_of_this_process_saved_is_moved_aside(log_dir, tmp_path, saver):
    directory = tmp_path / "given"
    train(saver(checkpoint_dir=directory), epochs=(1, 3))
    (directory / "notes.txt").write_text("of the user")
    before = contents(directory)
    with captured_log() as lines:
        train(saver(checkpoint_dir=directory))
    del before["notes.txt"]
    assert contents(aside(directory)) == before
    assert "notes.txt" in contents(directory)
    newest = max(each.stem for each in directory.glob("*.index"))
    assert tf.train.load_checkpoint(str(directory / newest)).get_tensor("w") == 4
    (said,) = (line for line in lines if "another training of this process has saved step 6" in line)
    assert said.endswith(f"its checkpoints are in {aside(directory)} now.")


def test_two_savers_of_one_training_keep_each_others_files(log_dir, tmp_path):
    directory = tmp_path / "given"
    for _ in range(2):
        train(ModelSaver(checkpoint_dir=directory), MinSaver("score", checkpoint_dir=directory), epochs=(1, 2))
    for found in (directory, aside(directory)):
        assert {"model-2.index", "model-4.index", "min-score.index", "checkpoint"} <= contents(found).keys()


def test_a_training_that_goes_on_after_the_other_one_keeps_its_checkpoints(log_dir, tmp_path):
    directory = tmp_path / "given"
    train(ModelSaver(checkpoint_dir=directory), epochs=(1, 2))
    train(ModelSaver(checkpoint_dir=directory), epochs=(3, 3), global_step=4)
    assert {"model-2.index", "model-4.index", "model-6.index"} <= contents(directory).keys()


def test_what_stayed_in_the_log_directory_was_to_stay(log_dir):
    for _ in range(2):
        train(ModelSaver(checkpoint_dir=log_dir / "inside"))
    assert [each.name for each in log_dir.iterdir() if each.is_dir()] == ["inside"]


def test_checkpoints_that_cannot_be_read_count_as_later(log_dir, tmp_path):
    directory = tmp_path / "given"
    train(ModelSaver(checkpoint_dir=directory))
    for name in list(contents(directory)):
        (directory / name).unlink()
    (directory / "other.index").write_text("nonsense")
    train(ModelSaver(checkpoint_dir=directory))
    assert list(contents(aside(directory))) == ["other.index"]


def test_on_remote_storage_another_directory_is_asked_for(log_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    url = f"local://{tmp_path}/there"
    train(ModelSaver(checkpoint_dir=url))
    open_directory(url).finish()
    before = contents(tmp_path / "there")
    with pytest.raises(CheckpointError, match="has saved step 4, later than step 0: expected another directory"):
        train(ModelSaver(checkpoint_dir=url))
    assert contents(tmp_path / "there") == before
    open_directory(url).end()
