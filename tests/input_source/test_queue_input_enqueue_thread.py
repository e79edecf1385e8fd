"""The input thread alone, around a plain Python queue: stop, restart and failure, also while it waits."""

import queue
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.dataflow import DataFlow, DataFromList
from tpack.errors import DataPointError, InputError
from tpack.input_source.queue_input import _EnqueueThread
from tpack.input_source.spec_check import DataPointChecker
from tpack.input_source.stream import DataPointStream

CLOSED = object()


class BoundedQueue:
    """A queue as TensorFlow's: bounded, and closing it wakes whoever waits for room, with an error."""

    def __init__(self, capacity):
        self.items = queue.Queue()
        self.room = threading.Semaphore(capacity)
        self.full = threading.Event()
        self.closed = False
        self.close_error = None

    def enqueue(self, array):
        if not self.room.acquire(blocking=False):
            self.full.set()
            self.room.acquire()
        if self.closed:
            raise RuntimeError("closed")
        self.items.put(array)

    def close(self):
        if self.close_error:
            raise self.close_error
        self.closed = True
        self.room.release()
        self.items.put(CLOSED)

    def get(self):
        item = self.items.get()
        self.room.release()
        return CLOSED if item is CLOSED else int(item)

    def drain(self):
        while not self.items.empty():
            self.items.get()
            self.room.release()


class Failing(DataFlow):
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield [0]
        raise self.error


def start(ds, capacity=3):
    q = BoundedQueue(capacity)
    stream = DataPointStream(ds, DataPointChecker([tf.TensorSpec([], tf.int32, "x")], "the test"))
    thread = _EnqueueThread(stream, enqueue=q.enqueue, close=q.close, name="the thread")
    thread.start()
    return q, thread


def numbers(number=5):
    return DataFromList([[k] for k in range(number)], shuffle=False)


def finish(q, thread):
    thread.stop()
    q.close()
    thread.join()


def test_data_points_come_in_order_again_and_again():
    q, thread = start(numbers())
    assert [q.get() for _ in range(12)] == [k % 5 for k in range(12)]
    finish(q, thread)
    assert thread.daemon
    assert thread.failure() is None


def test_a_thread_that_waits_for_room_can_be_stopped():
    q, thread = start(numbers())
    q.full.wait()
    finish(q, thread)
    assert thread.failure() is None


@pytest.mark.parametrize("num_taken", [0, 1, 7])
def test_restart_begins_with_the_first_data_point(num_taken):
    q, thread = start(numbers())
    for _ in range(3):
        assert [q.get() for _ in range(num_taken)] == [k % 5 for k in range(num_taken)]
        thread.restart(q.drain)
    assert [q.get() for _ in range(6)] == [0, 1, 2, 3, 4, 0]
    finish(q, thread)


def test_restart_of_a_thread_that_waits_for_room():
    q, thread = start(numbers(), capacity=1)
    q.full.wait()
    thread.restart(q.drain)
    assert [q.get() for _ in range(3)] == [0, 1, 2]
    finish(q, thread)


@pytest.mark.parametrize("error", [KeyError("gone"), SystemExit(3)])
def test_a_failure_is_known_before_the_queue_is_closed(error):
    q, thread = start(Failing(error))
    known = []
    close = q.close
    thread._close = lambda: (known.append(thread.failure()), close())
    assert [q.get(), q.get()] == [0, CLOSED]
    thread.join()
    failure = thread.failure()
    assert known in ([], [failure])
    assert isinstance(failure, InputError)
    assert failure.__cause__ is error
    assert error.__traceback__ is not None


def test_what_is_no_exception_of_the_dataflow_is_explained_with_the_name_of_the_thread():
    q, thread = start(Failing(SystemExit(3)))
    thread.join()
    with pytest.raises(InputError, match="the input thread 'the thread' ended with SystemExit: 3"):
        thread.reraise()


def test_a_bad_data_point_is_the_failure_itself():
    q, thread = start(DataFromList([[0], [0.5]], shuffle=False))
    thread.join()
    assert isinstance(thread.failure(), DataPointError)


def test_restart_of_a_failed_thread_raises_its_failure():
    q, thread = start(Failing(KeyError("gone")))
    thread.join()
    with pytest.raises(InputError, match="raised KeyError at data point 1"):
        thread.restart(q.drain)


def test_a_queue_that_cannot_be_closed_hides_no_failure(caplog):
    q, thread = start(Failing(KeyError("gone")), capacity=1)
    q.close_error = RuntimeError("no session")
    thread.join()
    assert "KeyError" in str(thread.failure())


def test_the_user_may_change_an_array_after_giving_it():
    class OneBuffer(DataFlow):
        def __iter__(self):
            buffer = np.zeros([], np.int32)
            for k in range(100):
                buffer[...] = k
                yield [buffer]

    q, thread = start(OneBuffer(), capacity=10)
    assert [q.get() for _ in range(50)] == list(range(50))
    finish(q, thread)
