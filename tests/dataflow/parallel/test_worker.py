"""What happens in a worker before and after it serves; run here, with the effects on this process taken away."""

import os
import random
import socket
from dataclasses import asdict

import numpy as np
import pytest

from tpack.dataflow.parallel import worker
from tpack.dataflow.parallel.receiver import Receiver
from tpack.dataflow.parallel.slots import Record
from tpack.dataflow.parallel.worker import Task, run_spawned_worker, run_worker, write_payload
from tpack.utils.rng import fix_rng_seed


@pytest.fixture
def owner(monkeypatch):
    """A task and the owner's end of the channel for results; the test process is as it was afterwards."""
    calls = []
    monkeypatch.setattr(worker, "keep_freed_memory", lambda: calls.append("heap"))
    states = random.getstate(), np.random.get_state()
    results_here, results_there = socket.socketpair()
    jobs_here, jobs_there = socket.socketpair()
    task = Task(5, 99, results_there.detach(), jobs_there.detach())
    receiver = Receiver(results_here)
    yield task, receiver, calls
    receiver.close()
    jobs_here.close()
    random.setstate(states[0])
    np.random.set_state(states[1])
    fix_rng_seed(None)


def test_worker_is_set_up_before_its_work_is_read(owner):
    task, receiver, calls = owner
    seen = []

    def get_work():
        seen.append((list(calls), random.random(), np.random.uniform()))
        return (lambda link, value: link.results.put([value])), (3,)

    assert run_worker(task, get_work) == 1
    assert seen[0] == (["heap"], random.Random(99).random(), np.random.RandomState(99).uniform())
    assert receiver.receive().kind == Record.READY
    assert receiver.receive().points == [[3]]


def test_worker_whose_work_cannot_be_read_has_not_begun(owner):
    task, receiver, _ = owner

    def get_work():
        raise ImportError("no such module")

    assert run_worker(task, get_work) == 1
    message = receiver.receive()
    assert (message.kind, message.points[0].text) == (Record.FATAL, "ImportError: no such module")


def work_that_raises(error):
    def serve(link):
        raise error

    return lambda: (serve, ())


@pytest.mark.parametrize(("error", "code"), [(SystemExit(5), 5), (SystemExit("text"), 1), (SystemExit(), 0)], ids=repr)
def test_exit_of_the_work_is_that_of_the_process(owner, error, code):
    assert run_worker(owner[0], work_that_raises(error)) == code


def test_exception_is_sent_and_the_process_has_failed(owner):
    task, receiver, _ = owner
    assert run_worker(task, work_that_raises(OSError("gone"))) == 1
    assert receiver.receive().kind == Record.READY
    message = receiver.receive()
    assert (message.kind, message.points[0].text) == (Record.FATAL, "OSError: gone")


def test_exception_that_nobody_listens_to_is_printed(owner, capsys):
    task, receiver, _ = owner

    def serve(link):
        receiver.close()
        raise OSError("gone")

    assert run_worker(task, lambda: (serve, ())) == 1
    assert "OSError: gone" in capsys.readouterr().err


def test_end_of_the_owner_is_a_good_end(owner):
    task, receiver, _ = owner

    def serve(link):
        receiver.close()
        link.results.send(Record.END)

    assert run_worker(task, lambda: (serve, ())) == 0


def test_new_interpreter_reads_what_was_written_for_it(owner, monkeypatch):
    task, receiver, _ = owner
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.x86_non_temporal_threshold=0x400000")
    serve = lambda link, value: link.results.put([value])  # noqa: E731
    with write_payload("Owner", (serve, (np.arange(3),))) as payload:
        assert run_spawned_worker(asdict(task), asdict(payload)) == 1
    assert receiver.receive().kind == Record.READY
    assert receiver.receive().points[0][0].tolist() == [0, 1, 2]
    assert "GLIBC_TUNABLES" not in os.environ
