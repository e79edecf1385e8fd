"""How long steps waited, with a clock of the test's: it goes on by one whenever it is looked at."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.counting_up import counted_up
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.run_input import SIGNATURE, InputRun
from tpack.dataflow import DataFromList
from tpack.input_source import FeedInput, QueueInput, StagingInput, TFDatasetInput, dequeue, feed, staging
from tpack.input_source.dequeue import DataWaitReport


@pytest.fixture
def seconds(graph, monkeypatch):
    """The clock: looking at it takes a second."""
    with tf.device("/device:CPU:0"):
        ticks = tf.Variable(tf.zeros([], tf.float64), use_resource=True, trainable=False, name="ticks")
    for module in (dequeue, staging):
        monkeypatch.setattr(module, "now", lambda: counted_up(ticks, 1.0))
    times = itertools.count()
    monkeypatch.setattr(feed, "time", SimpleNamespace(perf_counter=lambda: float(next(times))))


def points():
    return DataFromList([[np.full([1, 2], k), k] for k in range(7)], shuffle=False)


class Waited:
    """Trains on a source, and gives the statistic as the seconds that the steps of each epoch waited."""

    def __init__(self, source, num_towers):
        run = InputRun(source, SIGNATURE, num_towers)
        train_op = tf.group(*tf.nest.flatten(run.towers))
        self.reports = [cb for cb in run.callbacks if isinstance(cb, DataWaitReport)]
        trainer = FakeTrainer(train_op=train_op)
        self.seconds = []
        for report in self.reports:
            report._after_epoch = lambda report=report: self.note(report)
        trainer.train(run.callbacks, steps_per_epoch=3, epochs=(1, 2))
        self.recorder = trainer.recorder

    def note(self, report):
        waited = report._waited()
        self.seconds.append(None if waited is None else waited - report._waited_before)


@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("wrap", [QueueInput, TFDatasetInput])
def test_each_tower_adds_its_wait_at_each_step(seconds, wrap, num_towers):
    # Between the two looks of a tower lies one second, and no other tower looks meanwhile.
    assert Waited(wrap(points()), num_towers).seconds == [3 * num_towers] * 2


def test_a_step_that_is_fed_waits_once(seconds):
    assert Waited(FeedInput(points()), 2).seconds == [3, 3]


@pytest.mark.parametrize("wrap", [QueueInput, TFDatasetInput])
def test_staged_data_are_waited_for_where_they_are_staged(seconds, wrap):
    waited = Waited(StagingInput(wrap(points()), nr_stage=2), 2)
    by_report = [waited.seconds[k :: len(waited.reports)] for k in range(len(waited.reports))]
    assert by_report[0] == [None, None]
    # A step that ends before the data are staged waits for a second, and one that ends after them not at all.
    assert all(0 <= seconds <= 3 for seconds in by_report[1])


def test_runs_that_use_no_data_take_none_and_wait_for_none(graph):
    run = InputRun(QueueInput(points()), SIGNATURE, 2)
    nothing = tf.no_op()
    run.trainer.setup(run.callbacks)
    with run.trainer.sess.as_default():
        run.trainer.callbacks.before_train()
        run.trainer.hooked_sess.run(nothing)
        assert run.labels(1) == [0, 1]
        run.trainer.callbacks.after_train()
        run.trainer.sess.close()


def test_the_part_of_each_epoch_is_reported(graph, monkeypatch):
    times = iter([10.0, 14.0, 100.0, 108.0])
    waits = iter([5.0, 8.0, 90.0, 92.0])
    monkeypatch.setattr(dequeue, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    trainer = FakeTrainer().train([DataWaitReport("Some", lambda: next(waits))])
    assert trainer.recorder.values("Some/data_wait_ratio") == [3 / 4, 2 / 8]


def test_steps_that_do_not_wait_here_are_not_reported(graph):
    trainer = FakeTrainer().train([DataWaitReport("Some", lambda: None)])
    assert trainer.recorder.scalars == []
