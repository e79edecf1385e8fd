"""Child processes, forked ones; new interpreters are tested with what runs in them, in test_bootstrap.py."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from tests.helpers.source import ROOT
from tpack.dataflow.parallel.workers.child import Child, Task, fork_child

SECS = 30


def wait_for_ever():
    threading.Event().wait()


@pytest.mark.parametrize("code", [0, 7])
def test_exit_code_is_what_the_function_returns(code):
    child = fork_child(lambda: code, [])
    assert child.exit_code(SECS) == code
    assert child.exit_code(0) == code
    child.end()


def test_function_that_raises_ends_with_code_1(capfd):
    child = fork_child(lambda: 1 / 0, [])
    assert child.exit_code(SECS) == 1
    child.end()


def test_nothing_of_the_parents_exit_happens_in_the_fork(tmp_path):
    program = (
        "import atexit, sys; from tpack.dataflow.parallel.workers.child import fork_child\n"
        "atexit.register(print, 'exit'); sys.stdout.write('before ')\n"
        "fork_child(lambda: 0, []).end(30)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "before exit\n"


def test_process_that_is_asked_to_end_does_even_if_the_parent_handles_the_signal():
    before = signal.signal(signal.SIGTERM, lambda *args: None)
    try:
        here, there = socket.socketpair()

        def say_and_wait():
            there.sendall(b"x")
            wait_for_ever()

        child = fork_child(say_and_wait, [here.fileno()])
        assert here.recv(1) == b"x"
        child.signal(signal.SIGTERM)
        assert child.exit_code(SECS) == -signal.SIGTERM
        child.end()
        here.close()
        there.close()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_process_that_does_not_end_is_killed():
    child = fork_child(wait_for_ever, [])
    assert child.exit_code(0) is None
    child.end(0.0)
    assert child.exit_code(0) == -signal.SIGKILL
    child.signal(signal.SIGKILL)


def test_process_is_waited_for_where_the_system_cannot_say_when_it_ends(monkeypatch):
    def refuse(pid):
        raise OSError("no such call")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    child = fork_child(lambda: 3, [])
    assert child.sentinel is None
    assert child.exit_code(SECS) == 3
    child.end()
    endless = fork_child(wait_for_ever, [])
    endless.signal(signal.SIGTERM)
    endless.end()
    assert endless.exit_code(0) == -signal.SIGTERM


def test_descriptors_of_the_parent_are_closed_in_the_fork():
    reading, writing = os.pipe()
    child = fork_child(lambda: int(os.path.exists(f"/proc/self/fd/{writing}")), [writing])
    assert child.exit_code(SECS) == 0
    child.end()
    os.close(reading)
    os.close(writing)


def test_a_process_that_is_gone_can_be_signalled():
    process = subprocess.Popen([sys.executable, "-c", ""])
    child = Child(process.pid, process)
    assert child.exit_code(SECS) == 0
    child.signal(signal.SIGTERM)
    child.end()


def test_task_knows_its_descriptors():
    assert Task("name", 0, 1, 2, results=5, jobs=6, lifeline=7).descriptors == (5, 6, 7)
