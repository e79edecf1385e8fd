"""One process that calls a function: what it returns, how it fails, and that it ends."""

import os
import threading

import pytest

from tpack.errors import ConfigError, WorkerError
from tpack.utils.process_map import WorkerProcess, pickled


@pytest.fixture
def start():
    started = []

    def start_process(make_function, **environment):
        worker = WorkerProcess(pickled(make_function, "the function"), "helper 1 of 1")
        started.append(worker)
        worker.start(environment)
        return worker

    yield start_process
    for worker in started:
        worker.end()


def make_reader():
    return lambda name: (os.environ[name], os.getpid())


def test_values_come_back_with_their_results_and_numbers(start):
    worker = start(make_reader, TPACK_TEST_NAME="there")
    assert not worker.is_idle
    assert worker.receive() == (None, None)
    assert worker.is_idle
    worker.send(7, "TPACK_TEST_NAME")
    assert (worker.is_idle, worker.task) == (False, (7, "TPACK_TEST_NAME"))
    number, (value, (result, pid)) = worker.receive()
    assert (number, value, result) == (7, "TPACK_TEST_NAME", "there")
    assert pid == worker._process.pid
    assert (worker.is_idle, worker.task) == (True, None)
    assert "TPACK_TEST_NAME" not in os.environ


def test_dismissed_it_ends_by_itself(start):
    worker = start(make_reader)
    worker.receive()
    worker.dismiss()
    assert worker._process.exitcode == 0


def test_it_ends_whatever_it_does(start):
    worker = start(lambda: threading.Event().wait)
    worker.receive()
    worker.send(0, None)
    worker.end()
    assert worker._process.exitcode < 0
    worker.end()


def test_a_process_that_was_never_started_can_be_ended():
    worker = WorkerProcess(b"", "helper 1 of 1")
    worker.end()
    assert worker._process.pid is None
    assert worker.connection.closed


def test_a_failure_brings_the_traceback_along(start):
    worker = start(make_reader)
    worker.receive()
    worker.send(3, "TPACK_TEST_NO_SUCH_NAME")
    with pytest.raises(WorkerError, match=r"helper 1 of 1 \(process \d+\) failed on value 3: KeyError:") as caught:
        worker.receive()
    assert "Traceback" in str(caught.value.__cause__)


def test_a_death_is_noticed_by_who_sends_and_who_receives(start):
    worker = start(make_reader)
    worker.receive()
    worker._process.kill()
    worker._process.join()
    with pytest.raises(WorkerError, match=r"helper 1 of 1 .* died while it had nothing to do, with exit code -9"):
        worker.receive()
    with pytest.raises(WorkerError, match=r"helper 1 of 1 .* died on value 1, with exit code -9"):
        worker.send(1, "x")


def test_what_cannot_be_sent_is_refused(start):
    with pytest.raises(ConfigError, match="the model cannot be sent to another process: .*lock"):
        pickled(threading.Lock(), "the model")
    worker = start(make_reader)
    worker.receive()
    with pytest.raises(ConfigError, match="value 2 for helper 1 of 1 cannot be sent"):
        worker.send(2, threading.Lock())
    assert worker.is_idle
