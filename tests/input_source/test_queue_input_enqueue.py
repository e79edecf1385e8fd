"""The owner of the input thread: what it does when training ends in unusual ways."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import running
from tpack.dataflow import DataFlow
from tpack.input_source import QueueInput, queue_input
from tpack.utils import logger


class Waiting(DataFlow):
    """Waits for `go_on` before its second data point."""

    def __init__(self):
        self.go_on = threading.Event()
        self.waiting = threading.Event()

    def __iter__(self):
        yield [np.zeros([1, 2]), 0]
        self.waiting.set()
        self.go_on.wait()
        yield [np.zeros([1, 2]), 1]


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "warning", lines.append)
    return lines


def find_owner(run):
    return next(cb for cb in run.callbacks if isinstance(cb, queue_input.EnqueueCallback))


def test_a_dataflow_that_waits_does_not_hold_up_the_end(graph, monkeypatch, warnings):
    monkeypatch.setattr(queue_input, "JOIN_TIMEOUT_SECS", 0.01)
    ds = Waiting()
    with running(QueueInput(ds)) as run:
        run.step()
        ds.waiting.wait()
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "QueueInput of Waiting")
    assert warnings == ["The thread of QueueInput of Waiting still waits for its dataflow and is left alone."]
    ds.go_on.set()
    thread.join()


def test_closing_the_dataflow_ends_a_thread_that_waits_for_its_workers(graph, monkeypatch, warnings):
    monkeypatch.setattr(queue_input, "JOIN_TIMEOUT_SECS", 0.01)

    class Closing(Waiting):
        def close(self):
            self.go_on.set()

    ds = Closing()
    with running(QueueInput(ds)) as run:
        run.step()
        ds.waiting.wait()
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "QueueInput of Closing")
    thread.join()
    assert ds.go_on.is_set()


def test_a_session_that_is_closed_already_is_only_warned_of(graph, warnings):
    ds = Waiting()
    with running(QueueInput(ds)) as run:
        ds.waiting.wait()
        run.trainer.sess.close()
        ds.go_on.set()
    assert "cannot be closed, is the session closed already?" in warnings[-1]


def test_after_train_without_before_train_does_nothing(graph):
    source = QueueInput(Waiting())
    owner = source.setup([tf.TensorSpec([1, 2], tf.float32, "x"), tf.TensorSpec([], tf.int32, "y")])[1]
    owner.after_train()
    owner.restart()
    assert not owner.is_running
    assert owner.failure() is None


def test_it_runs_from_before_train_to_after_train(graph):
    with running(QueueInput(Waiting())) as run:
        owner = find_owner(run)
        assert owner.is_running
        run.source.ds.go_on.set()
    assert not owner.is_running
