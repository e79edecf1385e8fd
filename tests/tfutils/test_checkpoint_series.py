"""Checkpoints that a training writes one after the other."""

import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint import CheckpointSeries, save_checkpoint


@pytest.fixture
def session(graph):
    """A session with one variable that has a value."""
    tf.get_variable("v", initializer=1.0, use_resource=True)
    with cpu_session(graph) as session:
        session.run(tf.global_variables_initializer())
        yield session


def steps_in(directory):
    return sorted(
        int(name.removesuffix(".index").rpartition("-")[2]) for name in os.listdir(directory) if ".index" in name
    )


def test_each_has_its_step_and_the_last_one_is_known(session, tmp_path):
    series = CheckpointSeries(tf.train.Saver(), str(tmp_path), "model")
    assert series.saved_step is None
    assert [series.save(session, step) for step in (0, 7)] == [series.prefix(0), series.prefix(7)]
    assert series.saved_step == 7
    assert series.prefix(7) == tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model-7")


def test_those_of_a_former_run_count(session, tmp_path):
    saver = tf.train.Saver(max_to_keep=2)
    for steps in ((1, 2), (3,)):
        series = CheckpointSeries(saver, str(tmp_path), "model")
        for step in steps:
            series.save(session, step)
        saver = tf.train.Saver(max_to_keep=2)
    assert steps_in(tmp_path) == [2, 3]


def test_one_that_was_deleted_by_hand_does_not_count(session, tmp_path):
    first = CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model")
    for step in (1, 2):
        first.save(session, step)
    os.remove(f"{first.prefix(2)}.index")
    second = CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model")
    second.save(session, 3)
    assert steps_in(tmp_path) == [1, 3]


def test_a_failed_one_is_named_and_not_counted(session, tmp_path):
    (tmp_path / "file").write_text("")
    series = CheckpointSeries(tf.train.Saver(), str(tmp_path / "file"), "model")
    with pytest.raises(CheckpointError, match=f"cannot write checkpoint {tmp_path}/file/model-3: "):
        series.save(session, 3)
    assert series.saved_step is None


def test_checkpoint_is_written_without_meta_graph(session, tmp_path):
    path = str(tmp_path / "model")
    assert save_checkpoint(tf.train.Saver(), session, path, 3) == f"{path}-3"
    assert tf.train.list_variables(f"{path}-3") == [("v", [])]
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".meta")]


def test_checkpoint_that_cannot_be_written_names_the_path(session, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=f"cannot write checkpoint {tmp_path}/file/model: "):
        save_checkpoint(tf.train.Saver(), session, str(tmp_path / "file" / "model"))
