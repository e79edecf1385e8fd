import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.experiment_tracker import Tracker
from tpack.errors import CallbackError, DependencyError


class Keeps(Tracker):
    """Keeps what a client would be given; calls to it fail as it is told."""

    MODULE = "json"
    EXTRA = "keeps"

    def __init__(self, fails=(), in_thread=False):
        super().__init__({"rate": 1})
        self.IN_THREAD = in_thread
        self.fails, self.begun, self.rows, self.status = list(fails), [], [], None

    def _call(self, what):
        if what in self.fails:
            self.fails.remove(what)
            raise (KeyError if what == "key" else ConnectionError)(what)

    def _begin(self, former):
        self._call("begin")
        self._call("key")
        self.begun.append(former)
        return former or "run7"

    def _send(self, row):
        self._call(row.step)
        self.rows.append((row.step, row.scalars, sorted(row.images), sorted(row.histograms)))

    def _end(self, status):
        self.status = status

    def _to_be_mended(self):
        return (KeyError,)


def report(callback):
    monitors = callback.trainer.monitors
    monitors.put_scalar("cost", callback.global_step / 10)
    monitors.put_image("picture", np.zeros([2, 2]))
    counts = tf.HistogramProto(min=-1, max=2, num=3, bucket_limit=[-2, 0, 1, 1e308], bucket=[0, 2, 0, 1])
    monitors.put_summary(tf.Summary(value=[tf.Summary.Value(tag="weights", histo=counts)]))


def train(tracker, **training):
    with tf.Graph().as_default(), captured_log() as lines:
        FakeTrainer().train([CallbackFactory(trigger=report)], monitors=[tracker], **training)
    return lines


def row(step):
    return step, {"cost": step / 10}, ["picture"], ["weights"]


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_resumed_run_goes_on_with_the_same_and_sends_nothing_twice(log_dir, in_thread):
    first, second = Keeps(in_thread=in_thread), Keeps(in_thread=in_thread)
    assert train(first, epochs=(1, 3)) == []
    assert (first.begun, first.rows, first.status) == ([None], [row(2), row(4), row(6)], "finished")
    assert json.loads((log_dir / "keeps_run.json").read_text()) == {"run_id": "run7", "step": 6}
    assert train(second, epochs=(2, 4), global_step=2) == []
    assert (second.begun, second.rows) == (["run7"], [row(8)])


def test_a_run_that_begins_anew_is_another_one(log_dir):
    train(Keeps(), epochs=(1, 1))
    again = Keeps()
    train(again, epochs=(1, 1))
    assert (again.begun, again.rows) == ([None], [row(2)])


def test_a_failure_is_one_warning_and_numbers_are_sent_later(log_dir):
    tracker = Keeps(fails=[2, 2])
    (line,) = train(tracker, epochs=(1, 3))
    assert line.startswith("Keeps cannot send statistics: ConnectionError: 2. Training goes on")
    assert tracker.rows == [(2, {"cost": 0.2}, [], []), (4, {"cost": 0.4}, [], []), row(6)]


def test_what_could_not_be_sent_is_told_in_the_end(log_dir):
    tracker = Keeps(fails=[2] * 9)
    lines = train(tracker, epochs=(1, 2))
    assert len(lines) == 2
    assert lines[1] == "Keeps could not send the statistics of 2 steps."
    assert json.loads((log_dir / "keeps_run.json").read_text())["step"] == -1


def test_a_run_that_cannot_begin_is_a_warning_and_a_missing_key_an_error(log_dir):
    tracker = Keeps(fails=["begin"])
    (line,) = train(tracker)
    assert line == "Keeps keeps nothing of this training: a run cannot be begun: ConnectionError: begin"
    assert tracker.rows == []
    with pytest.raises(CallbackError, match="Keeps cannot begin a run: 'key'"):
        train(Keeps(fails=["key"]))


def test_a_damaged_note_is_a_new_run(log_dir):
    (log_dir / "keeps_run.json").write_text("[]")
    tracker = Keeps()
    (line,) = train(tracker, epochs=(2, 2), global_step=2)
    assert "begins a new run, since" in line
    assert tracker.begun == [None]


def test_how_training_ended_is_told(log_dir):
    def fail(callback):
        raise ValueError("no more")

    tracker = Keeps()
    with tf.Graph().as_default(), pytest.raises(ValueError, match="no more"):
        FakeTrainer().train([CallbackFactory(trigger=fail)], monitors=[tracker])
    assert tracker.status == "failed"
    train(tracker := Keeps(), interrupt_at=1)
    assert tracker.status == "interrupted"


def test_without_a_log_directory_it_says_so():
    assert train(Keeps(), epochs=(1, 1)) == [
        "Keeps begins a new run each time: without a log directory it cannot go on with one"
    ]


def test_a_client_that_is_not_there_is_an_error_that_says_what_to_install():
    class Absent(Keeps):
        MODULE = "tpack_has_no_such_client"

    with pytest.raises(DependencyError, match=r"pip install 'tpack\[keeps\]'"):
        Absent()
