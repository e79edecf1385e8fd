"""Checkpoints that a thread writes while training goes on."""

import os
import threading

import pytest
import tensorflow.compat.v1 as tf

from tests.callbacks.test_saver import checkpoints, state_files, train
from tests.helpers import preloaded
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.train_state import TrainState, read_train_state


class Held:
    """Lets a saver write only when it is told to, or fail."""

    def __init__(self, monkeypatch, fail_at=None):
        self.go, self.begun, self.error = threading.Event(), threading.Event(), OSError("the disk is full")
        save = tf.train.Saver.save

        def held(saver, session, path, step=None, **options):
            self.begun.set()
            assert self.go.wait(60)
            if step == fail_at:
                raise self.error
            return save(saver, session, path, step, **options)

        monkeypatch.setattr(tf.train.Saver, "save", held)


class At(Callback):
    """Calls a function after one step."""

    def __init__(self, step, function):
        self.step, self.function = step, function

    def _trigger_step(self):
        if self.global_step == self.step:
            self.function()


def each_step(**options):
    return PeriodicTrigger(ModelSaver(asynchronous=True, **options), every_k_steps=1)


def test_files_are_those_of_the_synchronous_way(log_dir, tmp_path):
    with captured_log() as lines:
        train(ModelSaver(asynchronous=True, max_to_keep=2), epochs=(1, 3))
    train(ModelSaver(max_to_keep=2, checkpoint_dir=tmp_path / "other"), epochs=(1, 3))
    assert checkpoints(log_dir) == [4, 6]
    assert lines[-1] == f"Model saved to {log_dir}/model-6."

    def contents(directory):
        return {path.name: path.read_bytes() for path in directory.iterdir() if path.name.startswith("model-")}

    assert contents(log_dir) == contents(tmp_path / "other")
    assert latest_checkpoint(str(log_dir)) == str(log_dir / "model-6")


def test_steps_go_on_while_the_values_of_their_time_are_written(log_dir, monkeypatch):
    held, seen = Held(monkeypatch), []

    def look_and_let_go():
        assert held.begun.wait(60)
        seen.append(checkpoints(log_dir))
        held.go.set()

    with tf.Graph().as_default():
        saver = PeriodicTrigger(ModelSaver(asynchronous=True), every_k_steps=2)
        FakeTrainer().train([saver, At(3, look_and_let_go)], steps_per_epoch=4, epochs=(1, 1))
    assert seen == [[]]
    assert checkpoints(log_dir) == [2, 4]
    for step in (2, 4):
        prefix = str(log_dir / f"model-{step}")
        assert tf.train.load_checkpoint(prefix).get_tensor("w") == step
        assert read_train_state(prefix) == TrainState(1, step, step, steps_per_epoch=4)


def test_training_waits_where_the_next_is_due_and_says_so_once(log_dir, monkeypatch):
    held = Held(monkeypatch)
    with captured_log() as lines:
        # Nobody else lets it go: only who waits does.
        wait = threading.Thread.join

        def join(thread, timeout=None):
            held.go.set()
            wait(thread, timeout)

        monkeypatch.setattr(threading.Thread, "join", join)
        train(each_step(), epochs=(1, 1))
    assert checkpoints(log_dir) == [1, 2]
    assert [line for line in lines if "waits until the last checkpoint is written" in line]


def test_failed_write_is_an_error_at_the_next_trigger(log_dir, monkeypatch):
    Held(monkeypatch, fail_at=2).go.set()
    with tf.Graph().as_default():
        trainer = FakeTrainer()
        with pytest.raises(CheckpointError, match=f"cannot write checkpoint {log_dir}/model-2: the disk is full"):
            trainer.train([each_step()], steps_per_epoch=9, epochs=(1, 1))
        assert trainer.global_step == 3
    assert checkpoints(log_dir) == [1]
    assert latest_checkpoint(str(log_dir)) == str(log_dir / "model-1")


def test_failed_write_of_the_last_is_an_error_at_the_end(log_dir, monkeypatch):
    Held(monkeypatch, fail_at=4).go.set()
    with pytest.raises(CheckpointError, match="model-4: the disk is full"):
        train(ModelSaver(asynchronous=True))
    assert checkpoints(log_dir) == [2]
    assert not list(log_dir.glob(".tpack.lock"))


def test_interrupted_training_is_saved_once_more_although_the_last_failed(log_dir, monkeypatch):
    Held(monkeypatch, fail_at=2).go.set()
    with pytest.raises(CheckpointError, match="model-2: the disk is full"):
        train(ModelSaver(asynchronous=True), interrupt_at=3)
    assert checkpoints(log_dir) == [3]
    assert state_files(log_dir) == ["model-3.train_state.json"]


def test_what_callbacks_remember_is_that_of_the_step(log_dir, monkeypatch):
    class Remembers(Callback):
        def __init__(self):
            self.steps = []

        def _trigger_step(self):
            self.steps.append(self.global_step)

        def _state_to_save(self):
            return self.steps

    held = Held(monkeypatch)
    with tf.Graph().as_default():
        saver = PeriodicTrigger(ModelSaver(asynchronous=True), every_k_steps=2)
        FakeTrainer().train([Remembers(), saver, At(3, held.go.set)], steps_per_epoch=3, epochs=(1, 1))
    assert read_train_state(str(log_dir / "model-2")).callbacks == {"Remembers": [1, 2]}


def test_state_that_cannot_be_packed_is_an_error_right_away(log_dir):
    class Odd(Callback):
        def _state_to_save(self):
            return object()

    with tf.Graph().as_default():
        trainer = FakeTrainer()
        with pytest.raises(CheckpointError, match="cannot write the training state of checkpoint .*/model-2: Object"):
            trainer.train([Odd(), ModelSaver(asynchronous=True)])
    assert not [name for name in os.listdir(log_dir) if name.startswith("model-")]


SCRIPT = """
import hashlib, sys
import numpy as np
import tensorflow.compat.v1 as tf
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


class Wide(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 784], tf.float32, "x")]

    def build_graph(self, x):
        for name, size in (("a", 4096), ("b", 1024)):
            w = tf.get_variable(name, [x.shape[1], size], initializer=tf.glorot_uniform_initializer(seed=1))
            x = tf.nn.relu(tf.matmul(x, w))
        return tf.reduce_mean(tf.square(x - 1))

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


class Digest(Callback):
    def _trigger_epoch(self):
        values = self.trainer.sess.run(tf.trainable_variables())
        print("digest", hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest())


saver = [PeriodicTrigger(ModelSaver(asynchronous=sys.argv[1] == "asynchronous", checkpoint_dir=sys.argv[2]), 1)]
config = TrainConfig(
    model=Wide(), dataflow=(np.random.default_rng(1).random((256, 784), np.float32),), batch_size=64, max_epoch=1,
    callbacks=[*(saver if sys.argv[1] != "none" else []), Digest()], monitors=[], seed=1,
)
launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))
"""


def test_weights_are_to_the_bit_those_without_saving(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    # The number of threads follows from that of towers, in a process without another session.
    env = {name: value for name, value in os.environ.items() if name != "TF_NUM_INTRAOP_THREADS"}
    digests = []
    for how in ("none", "synchronous", "asynchronous"):
        done = preloaded.run(
            tmp_path / "script.py", [how, tmp_path / how], env={**env, "PYTHONPATH": str(preloaded.ROOT)}
        )
        assert done.returncode == 0, done.stderr
        digests += [line for line in done.stdout.splitlines() if line.startswith("digest ")]
    assert len(digests) == 3
    assert len(set(digests)) == 1
