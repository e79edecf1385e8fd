"""One process that calls a function: what it returns, how it fails, and that it ends."""

import os
import signal
import threading

import psutil
import pytest

from tpack.errors import ConfigError, WorkerError
from tpack.utils.process_map import WorkerProcess, pickled, written


@pytest.fixture
def start():
    started = []

    def start_process(make_function, **environment):
        with written(pickled(make_function, "the function")) as file:
            started.append(WorkerProcess("helper 1 of 1", file, environment))
        return started[-1]

    yield start_process
    for worker in started:
        worker.end()


def make_reader():
    return lambda name: (os.environ[name], os.getpid())


def test_values_come_back_with_their_results_and_numbers(start):
    worker = start(make_reader, TPACK_TEST_NAME="there")
    assert not worker.is_idle
    assert worker.receive() is None
    assert worker.is_idle
    worker.send(7, "TPACK_TEST_NAME")
    assert (worker.is_idle, worker.task) == (False, (7, "TPACK_TEST_NAME"))
    number, value, (result, pid) = worker.receive()
    assert (number, value, result) == (7, "TPACK_TEST_NAME", "there")
    assert pid == worker._child.pid
    assert (worker.is_idle, worker.task) == (True, None)
    assert "TPACK_TEST_NAME" not in os.environ


def test_dismissed_it_ends_by_itself(start):
    worker = start(make_reader)
    worker.receive()
    worker.dismiss()
    assert worker._child.exit_code(0) == 0


def test_it_ends_whatever_it_does(start):
    worker = start(lambda: threading.Event().wait)
    worker.receive()
    worker.send(0, None)
    worker.end()
    assert worker._child.exit_code(0) == -signal.SIGTERM
    worker.end()


def test_it_ends_when_nobody_refers_to_it(start):
    with written(pickled(make_reader, "the function")) as file:
        worker = WorkerProcess("helper 1 of 1", file, {})
    pid, connection = worker._child.pid, worker.connection
    del worker
    assert not psutil.pid_exists(pid)
    assert connection.closed


def test_large_functions_are_no_obstacle(start):
    content = b"x" * 5_000_000
    workers = [start(lambda: lambda value: len(content)) for _ in range(2)]
    for worker in workers:
        worker.receive()
        worker.send(0, None)
        assert worker.receive() == (0, None, len(content))


def test_a_failure_brings_the_traceback_along(start):
    worker = start(make_reader)
    worker.receive()
    worker.send(3, "TPACK_TEST_NO_SUCH_NAME")
    with pytest.raises(WorkerError, match=r"helper 1 of 1 \(process \d+\) failed on value 3: KeyError:") as caught:
        worker.receive()
    assert "In the worker:\nTraceback" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_death_is_noticed_by_who_sends_and_who_receives(start):
    worker = start(make_reader)
    worker.receive()
    os.kill(worker._child.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"helper 1 of 1 .* was killed by SIGKILL while it had nothing to do"):
        worker.receive()
    with pytest.raises(WorkerError, match=r"helper 1 of 1 .* was killed by SIGKILL on value 1"):
        worker.send(1, "x")


def test_what_cannot_be_sent_is_refused(start):
    with pytest.raises(ConfigError, match="the model cannot be sent to another process: .*lock"):
        pickled(threading.Lock(), "the model")
    worker = start(make_reader)
    worker.receive()
    with pytest.raises(ConfigError, match="value 2 for helper 1 of 1 cannot be sent"):
        worker.send(2, threading.Lock())
    assert worker.is_idle
