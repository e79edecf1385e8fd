"""Checkpoints are written when they are due, and their listeners told."""

import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import CheckpointError, ConfigError
from tpack.estimator.run_config import RunConfig
from tpack.estimator.session import add_default_saver
from tpack.estimator.training import CheckpointWriter


class Listener(tf.train.CheckpointSaverListener):
    """Notes what it is told, and asks to stop after a step."""

    def __init__(self, stop_at=None):
        self.told, self.stop_at = [], stop_at

    def begin(self):
        self.told.append("begin")

    def before_save(self, session, global_step_value):
        self.told.append(("before", global_step_value))

    def after_save(self, session, global_step_value):
        self.told.append(("after", global_step_value))
        return global_step_value == self.stop_at

    def end(self, session, global_step_value):
        self.told.append(("end", global_step_value))


def steps_in(directory):
    names = [name for name in os.listdir(directory) if name.endswith(".index")]
    return sorted(int(name.removeprefix("model.ckpt-").removesuffix(".index")) for name in names)


def write(directory, config, steps, listeners=()):
    """Go through steps, of which the first is where training begins, and return the writer."""
    with tf.Graph().as_default(), cpu_session() as session:
        tf.get_variable("v", [1])
        scaffold = tf.train.Scaffold()
        writer = CheckpointWriter(str(directory), config, listeners)
        writer.build()
        add_default_saver(scaffold, config)
        scaffold.finalize()
        session.run(scaffold.init_op)
        writer.begin(session, scaffold.saver, steps[0])
        for step in steps[1:]:
            writer.after_step(session, step)
        writer.end(session, steps[-1])
        return writer


def test_first_due_and_last_are_saved(tmp_path):
    listeners = [Listener(), Listener(stop_at=4)]
    writer = write(tmp_path, RunConfig(save_checkpoints_steps=2), range(8), listeners)
    assert steps_in(tmp_path) == [0, 2, 4, 6, 7]
    times = [(when, step) for step in (0, 2, 4, 6, 7) for when in ("before", "after")]
    assert listeners[0].told == listeners[1].told == ["begin", *times, ("end", 7)]
    assert writer.wants_stop
    assert os.path.basename(tf.train.latest_checkpoint(str(tmp_path))) == "model.ckpt-7"


def test_a_step_is_saved_once(tmp_path):
    listener = Listener()
    write(tmp_path, RunConfig(save_checkpoints_steps=3), range(4), [listener])
    assert listener.told.count(("before", 3)) == 1


def test_the_limit_holds_over_runs(tmp_path):
    config = RunConfig(save_checkpoints_steps=1, keep_checkpoint_max=3)
    write(tmp_path, config, range(3))
    assert steps_in(tmp_path) == [0, 1, 2]
    write(tmp_path, config, range(2, 5))
    assert steps_in(tmp_path) == [2, 3, 4]


def test_none_are_written_when_none_are_wanted(tmp_path):
    listener = Listener()
    write(tmp_path, RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None), range(3), [listener])
    assert (os.listdir(tmp_path), listener.told) == ([], ["begin"])


def test_a_saver_of_the_models_own_stays(graph):
    variable = tf.get_variable("v", [1])
    own = tf.train.Saver([variable])
    add_default_saver(tf.train.Scaffold(saver=own), RunConfig())
    assert tf.get_collection(tf.GraphKeys.SAVERS) == []
    tf.add_to_collection(tf.GraphKeys.SAVERS, own)
    add_default_saver(tf.train.Scaffold(), RunConfig())
    assert tf.get_collection(tf.GraphKeys.SAVERS) == [own]


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write checkpoint .*file/model.ckpt-0"):
        write(tmp_path / "file", RunConfig(), [0])


def test_what_is_no_listener_is_refused():
    with pytest.raises(ConfigError, match=r"got saving_listeners\[0\]=1: expected a CheckpointSaverListener"):
        CheckpointWriter("dir", RunConfig(), [1])


def test_who_does_not_write_leaves_alone_what_another_writes(graph, tmp_path):
    variable = tf.get_variable("v", [2])
    files = ["model.ckpt-0.data-00000-of-00001.tempstate123", "model.ckpt-0.data-00000-of-00001"]
    for name in files:
        (tmp_path / name).write_text("in the middle of it")
    with cpu_session(graph) as session:
        session.run(variable.initializer)
        for writes, wanted in ((False, files), (True, [])):
            config = RunConfig(save_checkpoints_secs=None, save_checkpoints_steps=None)
            writer = CheckpointWriter(str(tmp_path), config, writes=writes)
            writer.begin(session, tf.train.Saver(), 0)
            assert sorted(path.name for path in tmp_path.iterdir()) == sorted(wanted)
