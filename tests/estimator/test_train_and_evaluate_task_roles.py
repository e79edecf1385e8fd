"""The evaluator's way to the end of a training, and the note by which it knows of it."""

import itertools
import sys

import pytest

from tpack.errors import CheckpointError, ClusterError
from tpack.estimator.run_config import ClusterPlace
from tpack.estimator.train_and_evaluate import NOTE_NAME, EndNote, Pace, evaluate_until_end
from tpack.utils.tf_config import ClusterTask

CLUSTER = {"chief": ["a:1"], "worker": ["b:1"]}
AT_ONCE = Pace(0, 0, 0.2)


def note_of(directory, cluster=CLUSTER, launch="1"):
    task = ClusterTask({**cluster, "evaluator": ["c:1"]}, "evaluator", 0)
    return EndNote(str(directory), ClusterPlace(task_type="evaluator", task=task), {"TPACK_LAUNCH_ID": launch})


def test_the_note_is_of_one_training(tmp_path):
    note = note_of(tmp_path / "model")
    assert note.read() is None
    with note.written_after():
        assert note.read() is None
    assert note.read() == ""
    assert note_of(tmp_path / "model", launch="2").read() is None
    assert note_of(tmp_path / "model", {"chief": ["a:2"], "worker": ["b:1"]}).read() is None
    with pytest.raises(KeyError), note.written_after():
        # That of the training before is gone.
        assert note.read() is None
        raise KeyError("x")
    assert note.read() == "KeyError: 'x'"
    assert [path.name for path in (tmp_path / "model").iterdir()] == [NOTE_NAME]


class Watched:
    """Checkpoints that come one after the other, each time they are asked for, and what was evaluated of them."""

    def __init__(self, found, fails=()):
        self.found = list(found)
        self.fails = set(fails)
        self.evaluated = []

    def newest(self):
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def evaluate(self, checkpoint, is_over):
        if checkpoint in self.fails:
            raise CheckpointError(f"no {checkpoint}")
        self.evaluated.append((checkpoint, is_over))
        return int(checkpoint)

    def run(self, note, pace=AT_ONCE, last_step=None):
        evaluate_until_end(self.evaluate, self.newest, note, pace, last_step=last_step)
        return self.evaluated


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(sys.modules[EndNote.__module__], "_POLL_SECS", 0.0)


def test_an_evaluation_ends_with_the_last_step(tmp_path):
    watched = Watched([None, "1", "1", "3", "7", "9"])
    assert watched.run(note_of(tmp_path), last_step=7) == [("1", False), ("3", False), ("7", False)]


def test_an_evaluation_ends_when_training_is_over(tmp_path):
    note = note_of(tmp_path)
    with note.written_after():
        pass
    # Neither the delay nor the pause between two is waited for then.
    assert Watched(["4"]).run(note, Pace(100, 100, 100), last_step=9) == [("4", True)]
    with pytest.raises(ClusterError, match="training has ended, and it has left no checkpoint to evaluate"):
        Watched([None]).run(note)


def test_a_training_that_failed_is_told(tmp_path):
    note = note_of(tmp_path)
    with pytest.raises(ValueError, match="x"), note.written_after():
        raise ValueError("x")
    watched = Watched(["4"])
    with pytest.raises(ClusterError, match="training failed, says the chief: ValueError: x"):
        watched.run(note)
    assert watched.evaluated == [("4", True)]


def test_an_evaluator_gives_up_some_time(tmp_path):
    with pytest.raises(ClusterError, match="no new checkpoint for 0.2 s, .*the last one was 2"):
        Watched(["2"]).run(note_of(tmp_path), last_step=3)


def test_a_checkpoint_that_was_removed_is_left_out(tmp_path):
    watched = Watched(["1", "2", "2"], fails=["1"])
    assert watched.run(note_of(tmp_path), last_step=2) == [("2", False)]
    with pytest.raises(CheckpointError, match="no 5"):
        Watched(itertools.repeat("5", 3), fails=["5"]).run(note_of(tmp_path), last_step=6)
