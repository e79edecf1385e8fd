"""Checkpoints that a training writes one after the other."""

import os
import shutil

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.sessions import cpu_session
from tpack.errors import CheckpointError
from tpack.tfutils import checkpoint
from tpack.tfutils.checkpoint import CheckpointSeries, remove_leftovers, save_checkpoint


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


def test_one_that_a_kill_kept_from_being_deleted_is_deleted_by_the_next_run(session, tmp_path, monkeypatch):
    first = CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model")
    for step in (1, 2):
        first.save(session, step)

    def killed(prefix):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint, "_remove_checkpoint", killed)
        first.save(session, 3)
    assert steps_in(tmp_path) == [1, 2, 3]
    assert tf.train.latest_checkpoint(str(tmp_path)) == first.prefix(3)
    CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model").save(session, 4)
    assert steps_in(tmp_path) == [3, 4]
    assert tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths == [
        str(tmp_path / "model-3"),
        str(tmp_path / "model-4"),
    ]


def test_one_in_so_many_hours_and_all_of_zero_stay(session, tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(checkpoint.time, "time", lambda: now[0])
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1.0)
    series = CheckpointSeries(saver, str(tmp_path / "hours"), "model")
    (tmp_path / "hours").mkdir()
    for step in range(1, 7):
        now[0] += 2000.0
        series.save(session, step)
    # Saved at 3000, 5000, ..., 13000: those of 5000 and 9000 are the first after 4600 and 8200.
    assert steps_in(tmp_path / "hours") == [2, 4, 6]
    (tmp_path / "all").mkdir()
    series = CheckpointSeries(tf.train.Saver(max_to_keep=0), str(tmp_path / "all"), "model")
    for step in range(4):
        series.save(session, step)
    assert steps_in(tmp_path / "all") == [0, 1, 2, 3]
    assert list(tf.train.get_checkpoint_state(str(tmp_path / "all")).all_model_checkpoint_paths) == [series.prefix(3)]


def test_one_that_was_deleted_by_hand_does_not_count(session, tmp_path):
    first = CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model")
    for step in (1, 2):
        first.save(session, step)
    os.remove(f"{first.prefix(2)}.index")
    second = CheckpointSeries(tf.train.Saver(max_to_keep=2), str(tmp_path), "model")
    second.save(session, 3)
    assert steps_in(tmp_path) == [1, 3]


@pytest.mark.parametrize("content", [b"", b"\0" * 80, b"\xff\xfe\x80", b"model_checkpo", b"{"])
def test_those_of_a_former_run_are_found_by_their_files_where_the_file_with_their_names_is_damaged(
    session, tmp_path, content
):
    first = CheckpointSeries(tf.train.Saver(max_to_keep=3), str(tmp_path), "model")
    for step in (1, 2, 3):
        first.save(session, step)
        os.utime(first.prefix(step) + ".index", (step, step))
    # One that was meant to stay is older than those that count.
    shutil.copy(first.prefix(1) + ".index", first.prefix(0) + ".index")
    os.utime(first.prefix(0) + ".index", (0, 0))
    shutil.copy(first.prefix(1) + ".index", tmp_path / "other-1.index")
    (tmp_path / "checkpoint").write_bytes(content)
    with captured_log() as lines:
        second = CheckpointSeries(tf.train.Saver(max_to_keep=3), str(tmp_path), "model")
    assert "is damaged" in lines[0]
    assert "it is not used" in lines[0]
    second.save(session, 4)
    (tmp_path / "other-1.index").unlink()
    assert steps_in(tmp_path) == [0, 2, 3, 4]
    assert tf.train.latest_checkpoint(str(tmp_path)) == second.prefix(4)


def test_what_a_killed_save_left_is_removed_and_nothing_else(session, tmp_path):
    CheckpointSeries(tf.train.Saver(), str(tmp_path), "model").save(session, 1)
    data = "data-00000-of-00001"
    left = [
        f"model-2.{data}.tempstate1234567890",
        "model-2.index.tempstate99",
        f"model-3.{data}",
        f"checkpoint.tmp{'0a' * 16}",
        ".checkpoint.0a1b2c3d.tmp",
        f"graph-1122-003300.meta.tmp{'0a' * 16}",
        "model-4_temp",
    ]
    kept = [f"min-cost.{data}", f"other-3.{data}", "model-5.index", "model-2.tempstate", "checkpoint.tmp", "notes.tmp1"]
    for name in [*left[:-1], *kept]:
        (tmp_path / name).touch()
    (tmp_path / "model-4_temp").mkdir()
    (tmp_path / "model-4_temp" / f"part-00000-of-00001.{data}").touch()
    before = set(os.listdir(tmp_path))
    with captured_log() as lines:
        CheckpointSeries(tf.train.Saver(), str(tmp_path), "model")
    assert before - set(os.listdir(tmp_path)) == set(left)
    assert "Removed from" in lines[0]
    assert remove_leftovers(str(tmp_path), "model") == []


def test_what_a_real_killed_save_leaves_is_removed(session, tmp_path, monkeypatch):
    series = CheckpointSeries(tf.train.Saver(), str(tmp_path), "model")
    series.save(session, 1)
    whole = set(os.listdir(tmp_path))
    # The last of what a save does: the data is there under its name, and the index is not.
    os.mkdir(tmp_path / "model-2.index")
    with pytest.raises(CheckpointError, match="cannot write checkpoint .*model-2"):
        series.save(session, 2)
    os.rmdir(tmp_path / "model-2.index")
    assert set(os.listdir(tmp_path)) > whole
    CheckpointSeries(tf.train.Saver(), str(tmp_path), "model")
    assert set(os.listdir(tmp_path)) == whole


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


def test_checkpoint_of_another_directory_that_the_file_names_is_not_deleted(session, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "own").mkdir()
    theirs = CheckpointSeries(tf.train.Saver(), str(tmp_path / "other"), "model").save(session, 1)
    CheckpointSeries(tf.train.Saver(), str(tmp_path / "own"), "model").save(session, 2)
    names = [theirs, "../other/model-1", "model-2"]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    (tmp_path / "own" / "checkpoint").write_text("\n".join(lines))
    before = sorted(os.listdir(tmp_path / "other"))
    series = CheckpointSeries(tf.train.Saver(max_to_keep=1), str(tmp_path / "own"), "model")
    series.save(session, 3)
    assert sorted(os.listdir(tmp_path / "other")) == before
    assert steps_in(tmp_path / "own") == [3]
