"""Iterations over a stream that belong to TensorFlow, ended by their owner."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from tpack.dataflow import DataFlow, DataFromList
from tpack.input_source import dataset
from tpack.input_source.dataset import StreamElements
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream
from tpack.utils import logger

SPECS = [tf.TensorSpec([], tf.int32, "x")]
WAIT_SECS = 300


class Waiting(DataFlow):
    """Gives a point, and then waits until it is closed, or told to go on."""

    def __init__(self, *, ends_when_closed=True):
        self.waits = threading.Event()
        self.may_go_on = threading.Event()
        self.ends_when_closed = ends_when_closed
        self.num_closed = 0

    def __iter__(self):
        yield [0]
        self.waits.set()
        self.may_go_on.wait()
        raise OSError("closed")

    def close(self):
        self.num_closed += 1
        if self.ends_when_closed:
            self.may_go_on.set()


def elements_of(ds, **options):
    return StreamElements(DataPointStream(ds, DataPointChecker(SPECS, "the flow"), **options), "the flow")


def take_in_thread(found):
    """Begin to take the next element in another thread; return the thread and what comes."""
    came = []
    thread = threading.Thread(target=lambda: came.append(next(found, "end")))
    thread.start()
    return thread, came


def wait_and_end(ds):
    """End the iteration while a thread waits for the second element; return the thread, what comes and the stream."""
    elements = elements_of(ds)
    found = elements()
    next(found)
    thread, came = take_in_thread(found)
    assert ds.waits.wait(WAIT_SECS)
    elements.after_train()
    return thread, came, elements


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "warning", lines.append)
    monkeypatch.setattr(dataset, "JOIN_TIMEOUT_SECS", 0.01)
    return lines


def test_each_iteration_begins_anew_and_has_the_dtypes_of_the_signature():
    elements = elements_of(DataFromList([[1], [2]], shuffle=False), infinite=False)
    for _ in range(2):
        found = list(elements())
        assert found == [(1,), (2,)]
        assert found[0][0].dtype == "int32"
    assert elements.failure() is None


def test_error_is_kept():
    ds = Waiting()
    ds.may_go_on.set()
    elements = elements_of(ds)
    found = elements()
    next(found)
    with pytest.raises(Exception, match="raised OSError at data point 1: closed") as caught:
        next(found)
    assert elements.failure() is caught.value
    assert list(found) == []


def test_end_of_training_ends_iterations_and_the_flow():
    ds = Waiting()
    elements = elements_of(ds)
    found = [elements(), elements()]
    next(found[0])
    elements.after_train()
    assert [list(each) for each in found] == [[], []]
    assert ds.num_closed == 1
    assert elements.failure() is None


def test_iteration_that_waits_for_workers_is_ended_without_a_failure(warnings):
    ds = Waiting()
    thread, came, elements = wait_and_end(ds)
    thread.join(WAIT_SECS)
    assert came == ["end"]
    assert elements.failure() is None


def test_iteration_that_cannot_be_ended_is_left_alone(warnings):
    ds = Waiting(ends_when_closed=False)
    thread, came, _ = wait_and_end(ds)
    assert warnings == ["A thread of TensorFlow still waits for the flow and is left alone."]
    assert ds.num_closed == 1
    ds.may_go_on.set()
    thread.join(WAIT_SECS)
    assert came == ["end"]
