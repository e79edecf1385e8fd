"""Threads that stop, loop, pause, and keep the exception that ended them."""

import queue
import threading
import traceback

import pytest

from tpack.errors import ConfigError
from tpack.utils.concurrency import LoopThread, StoppableThread

WAIT_SECS = 300


class Waiting(StoppableThread):
    """Runs until it is stopped."""

    def run(self):
        self._stop_event.wait(WAIT_SECS)


def fail():
    raise KeyError("lost")


def test_stop_ends_a_thread_that_looks_at_the_flag():
    thread = Waiting()
    thread.start()
    assert not thread.stopped()
    thread.stop()
    thread.join(WAIT_SECS)
    assert thread.stopped()
    assert not thread.is_alive()
    assert thread.failure() is None
    thread.reraise()


def test_shared_event_stops_all_its_threads():
    event = threading.Event()
    threads = [Waiting(event), Waiting(event)]
    for thread in threads:
        thread.start()
    threads[0].stop()
    for thread in threads:
        thread.join(WAIT_SECS)
    assert [thread.is_alive() for thread in threads] == [False, False]


def test_exception_is_kept_with_its_traceback_and_logged(capsys):
    thread = StoppableThread(target=fail, name="reader")
    thread.start()
    thread.join(WAIT_SECS)
    assert "Thread reader ended with KeyError: 'lost'" in capsys.readouterr().err
    assert traceback.extract_tb(thread.failure().__traceback__)[-1].name == "fail"
    with pytest.raises(KeyError, match="lost"):
        thread.reraise()


def test_exception_of_an_overriding_run_is_kept():
    class Failing(StoppableThread):
        def run(self):
            fail()

    thread = Failing()
    thread.start()
    thread.join(WAIT_SECS)
    assert isinstance(thread.failure(), KeyError)


def test_queue_put_waits_for_room_and_get_for_an_item():
    shared = queue.Queue(maxsize=1)
    producer = StoppableThread(target=lambda: [producer.queue_put_stoppable(shared, k) for k in range(3)])
    producer.start()
    consumer = StoppableThread()
    assert [consumer.queue_get_stoppable(shared) for _ in range(3)] == [0, 1, 2]
    producer.join(WAIT_SECS)
    assert producer.failure() is None


def test_queue_calls_of_a_stopped_thread_return_at_once():
    thread = StoppableThread()
    thread.stop()
    assert thread.queue_put_stoppable(queue.Queue(), 1) is False
    assert thread.queue_get_stoppable(queue.Queue()) is None


@pytest.mark.parametrize("method", ["put", "get"])
def test_stop_ends_waiting_for_a_queue(method):
    full_or_empty = queue.Queue(maxsize=1)
    if method == "put":
        full_or_empty.put(0)
    entered = threading.Event()
    results = []

    def wait():
        entered.set()
        put, get = thread.queue_put_stoppable, thread.queue_get_stoppable
        results.append(put(full_or_empty, 1) if method == "put" else get(full_or_empty))

    thread = StoppableThread(target=wait)
    thread.start()
    entered.wait(WAIT_SECS)
    thread.stop()
    thread.join(WAIT_SECS)
    assert results == [False if method == "put" else None]


def test_loop_thread_calls_until_stopped():
    calls = threading.Semaphore(0)
    thread = LoopThread(calls.release)
    thread.start()
    assert all(calls.acquire(timeout=WAIT_SECS) for _ in range(3))
    thread.stop()
    thread.join(WAIT_SECS)
    assert not thread.is_alive()


def test_paused_loop_calls_nothing_until_resumed():
    calls = []
    reached = threading.Event()

    def call():
        calls.append(1)
        reached.set()

    thread = LoopThread(call)
    thread.start()
    assert reached.wait(WAIT_SECS)
    thread.pause()
    count = len(calls)
    reached.clear()
    assert len(calls) == count
    thread.resume()
    assert reached.wait(WAIT_SECS)
    thread.stop()
    thread.join(WAIT_SECS)
    assert len(calls) > count


def test_pause_waits_for_the_running_call():
    entered, leave, done = threading.Event(), threading.Event(), []

    def call():
        entered.set()
        leave.wait(WAIT_SECS)
        done.append(1)

    thread = LoopThread(call)
    thread.start()
    entered.wait(WAIT_SECS)
    releaser = threading.Timer(0.05, leave.set)
    releaser.start()
    thread.pause()
    assert done == [1]
    thread.stop()
    thread.join(WAIT_SECS)
    releaser.join(WAIT_SECS)


def test_stop_ends_a_paused_loop_and_pause_after_stop_does_not_hold_it():
    thread = LoopThread(lambda: None)
    thread.start()
    thread.pause()
    thread.stop()
    thread.pause()
    thread.join(WAIT_SECS)
    assert not thread.is_alive()


def test_loop_ends_with_the_exception_of_its_function():
    thread = LoopThread(fail)
    thread.start()
    thread.join(WAIT_SECS)
    assert isinstance(thread.failure(), KeyError)


def test_unpausable_loop_refuses_to_pause_and_resume():
    thread = LoopThread(lambda: None, pausable=False)
    with pytest.raises(ConfigError, match="made with pausable=False"):
        thread.pause()
    with pytest.raises(ConfigError, match="made with pausable=False"):
        thread.resume()
