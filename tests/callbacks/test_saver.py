import os
import shutil
from functools import partial

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.claims import claimed_elsewhere
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CallbackError, CheckpointError, ConfigError
from tpack.tfutils.train_state import TrainState, read_train_state
from tpack.utils.dir_lock import LOCK_FILE


def checkpoints(directory):
    return sorted(int(name.split("-")[1].split(".")[0]) for name in os.listdir(directory) if name.endswith(".index"))


def state_files(directory):
    return sorted(name for name in os.listdir(directory) if "train_state" in name)


def train(saver, **training):
    """Train in a graph of its own; each step adds 1 to w."""
    with tf.Graph().as_default():
        return FakeTrainer().train([saver], steps_per_epoch=2, **training)


def test_checkpoint_is_saved_each_epoch(log_dir):
    with captured_log() as lines:
        train(ModelSaver(), epochs=(1, 3))
    assert checkpoints(log_dir) == [2, 4, 6]
    prefix = tf.train.latest_checkpoint(str(log_dir))
    assert prefix == str(log_dir / "model-6")
    assert lines[-1] == f"Model saved to {prefix}."
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("w") == 6.0
    assert reader.get_tensor("global_step") == 6


def test_checkpoint_knows_where_training_was(log_dir):
    train(PeriodicTrigger(ModelSaver(), every_k_steps=1, before_train=True), epochs=(2, 2), global_step=2)
    states = {step: read_train_state(str(log_dir / f"model-{step}")) for step in checkpoints(log_dir)}
    made = partial(TrainState, steps_per_epoch=2)
    assert states == {2: made(2, 0, 2), 3: made(2, 1, 3), 4: made(2, 2, 4)}


def test_state_is_there_before_the_checkpoint(log_dir, monkeypatch):
    saver = ModelSaver()
    found = []

    def save(*args, **kwargs):
        found.append((state_files(log_dir), checkpoints(log_dir)))
        raise OSError("killed here")

    monkeypatch.setattr(tf.train.Saver, "save", save)
    with pytest.raises(CheckpointError, match=r"cannot write checkpoint .*/model-2: killed here"):
        train(saver)
    assert found == [(["model-2.train_state.json"], [])]


def test_graph_is_written_once(log_dir):
    train(ModelSaver(), epochs=(1, 3))
    names = [name for name in os.listdir(log_dir) if name.endswith(".meta")]
    assert len(names) == 1
    with tf.Graph().as_default() as imported:
        restorer = tf.train.import_meta_graph(str(log_dir / names[0]))
        assert [v.name for v in tf.trainable_variables()] == ["w:0"]
        with tf.Session(graph=imported) as session:
            restorer.restore(session, str(log_dir / "model-6"))
            assert session.run("w/Read/ReadVariableOp:0") == 6.0


def test_old_checkpoints_and_their_states_are_deleted(log_dir):
    train(ModelSaver(max_to_keep=2), epochs=(1, 4))
    assert checkpoints(log_dir) == [6, 8]
    assert state_files(log_dir) == ["model-6.train_state.json", "model-8.train_state.json"]


def test_limit_holds_over_restarts(log_dir):
    train(ModelSaver(max_to_keep=3), epochs=(1, 3))
    train(ModelSaver(max_to_keep=3), epochs=(4, 4), global_step=6)
    assert checkpoints(log_dir) == [4, 6, 8]


def test_checkpoint_that_is_gone_does_not_count(log_dir):
    train(ModelSaver(max_to_keep=3), epochs=(1, 3))
    for name in os.listdir(log_dir):
        if name.startswith("model-2."):
            os.remove(log_dir / name)
    train(ModelSaver(max_to_keep=3), epochs=(4, 4), global_step=6)
    assert checkpoints(log_dir) == [4, 6, 8]
    assert state_files(log_dir) == [f"model-{step}.train_state.json" for step in (4, 6, 8)]


def test_limit_holds_after_the_directory_moved(log_dir, tmp_path):
    train(ModelSaver(max_to_keep=2), epochs=(1, 2))
    moved = tmp_path / "moved"
    shutil.copytree(log_dir, moved)
    train(ModelSaver(max_to_keep=2, checkpoint_dir=str(moved)), epochs=(3, 3), global_step=4)
    assert checkpoints(moved) == [4, 6]
    assert checkpoints(log_dir) == [2, 4]


@pytest.mark.parametrize(("interrupt_at", "expected"), [(3, [2, 3]), (None, [2, 4])])
def test_interrupted_training_is_saved_once_more(log_dir, interrupt_at, expected):
    train(ModelSaver(), interrupt_at=interrupt_at)
    assert checkpoints(log_dir) == expected


def test_interruption_right_after_a_checkpoint_saves_nothing_new(log_dir):
    saved = []

    class Counting(ModelSaver):
        def _trigger(self):
            saved.append(self.global_step)
            super()._trigger()

    train(PeriodicTrigger(Counting(), every_k_steps=1), interrupt_at=3)
    assert saved == [1, 2, 3]


@pytest.mark.parametrize("collections", ["MINE", ["MINE"]])
def test_variables_can_be_chosen(graph, log_dir, collections):
    trainer = FakeTrainer()
    tf.add_to_collection("MINE", trainer.weight)
    trainer.train([ModelSaver(var_collections=collections)])
    assert tf.train.list_variables(str(log_dir / "model-4")) == [("w", [])]


def test_local_variables_such_as_tower_copies_are_not_saved(graph, log_dir):
    tf.get_variable("copy", initializer=1.0, use_resource=True, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    FakeTrainer().train([ModelSaver()])
    assert [name for name, _ in tf.train.list_variables(str(log_dir / "model-4"))] == ["global_step", "w"]


def test_no_directory_is_an_error(graph):
    with pytest.raises(CallbackError, match="ModelSaver got checkpoint_dir=None"):
        FakeTrainer().train([ModelSaver()])


def test_state_that_cannot_be_written_names_the_path(log_dir):
    class Vanish(Callback):
        def _after_epoch(self):
            shutil.rmtree(log_dir)

    with tf.Graph().as_default():
        trainer = FakeTrainer()
        with pytest.raises(CheckpointError, match=f"cannot write the training state of checkpoint {log_dir}/model-2"):
            trainer.train([Vanish(), ModelSaver()])
    os.makedirs(log_dir)


def test_graph_that_cannot_be_written_names_the_path(log_dir):
    class Vanish(Callback):
        def _before_train(self):
            shutil.rmtree(log_dir)
            log_dir.write_text("a file where the directory was")

    with tf.Graph().as_default():
        trainer = FakeTrainer()
        with pytest.raises(CheckpointError, match=f"cannot write the graph to {log_dir}/graph-"):
            trainer.train([Vanish(), ModelSaver()])


def test_directory_is_nobody_elses_while_training_and_free_afterwards(log_dir):
    with claimed_elsewhere(log_dir) as pid:
        before = sorted(os.listdir(log_dir))
        with pytest.raises(ConfigError, match=f"in use: process {pid} on "):
            train(ModelSaver())
        assert sorted(os.listdir(log_dir)) == before
    held = []
    watch = CallbackFactory(trigger=lambda _: held.append((log_dir / LOCK_FILE).exists()))
    with tf.Graph().as_default():
        FakeTrainer().train([ModelSaver(), watch], epochs=(1, 2))
    assert held == [True, True]
    assert not (log_dir / LOCK_FILE).exists()


def test_what_a_killed_run_left_is_removed_by_the_next(log_dir):
    for name in ("model-9.data-00000-of-00001", "model-9.index.tempstate123"):
        (log_dir / name).touch()
    train(ModelSaver())
    assert not list(log_dir.glob("model-9*"))


@pytest.mark.parametrize("content", [b"", b"garbage", b"\0" * 80])
def test_damaged_file_of_names_does_not_stop_a_restart(log_dir, content):
    train(ModelSaver(max_to_keep=2), epochs=(1, 2))
    (log_dir / "checkpoint").write_bytes(content)
    train(ModelSaver(max_to_keep=2), epochs=(3, 3), global_step=4)
    assert checkpoints(log_dir) == [4, 6]
