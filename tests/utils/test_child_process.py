"""Child processes, new and forked: what they are told, how they end, and what they do not share with their owner."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from tests.helpers.source import ROOT
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.child_process import anonymous_file, check_fork, fork_child, spawn_child

SECS = 300


def wait_for_ever():
    threading.Event().wait()


def fork(run, close=()):
    return fork_child(run, name="child", close=close)


def describe(descriptor, code):
    """Write down what this process is like, and return the code."""
    told = {
        "argv": sys.argv,
        "name": multiprocessing.current_process().name,
        "blocked": signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "variable": os.environ.get("TPACK_TEST_NAME"),
        "main": sys.modules["__main__"].__dict__.get("__file__"),
        "input": sys.stdin.read(),
    }
    with open(descriptor, "w") as file:
        json.dump(told, file)
    return code


def ignore_sigterm(descriptor):
    """Say when nothing but SIGKILL ends this process any more."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(descriptor, b"x")
    wait_for_ever()


def spawn(run, descriptor, environment=None, **arguments):
    """Start a new interpreter, and close the descriptor that it is to have."""
    arguments["descriptor"] = descriptor
    child = spawn_child(run, arguments, name="child", descriptors=[descriptor], environment=environment)
    os.close(descriptor)
    return child


@pytest.mark.parametrize("environment", [None, {**os.environ, "TPACK_TEST_NAME": "there"}], ids=["ours", "its own"])
def test_new_interpreter_calls_the_function_as_a_process_of_its_own(monkeypatch, environment):
    monkeypatch.setattr(sys, "argv", ["script", "x"])
    here, there = os.pipe()
    child = spawn(describe, there, environment, code=7)
    with open(here) as file:
        told = json.load(file)
    assert child.exit_code(SECS) == 7
    child.end()
    assert told == {
        "argv": ["script", "x"],
        "name": "child",
        "blocked": True,
        "variable": environment and "there",
        "main": None,
        "input": "",
    }
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_new_interpreter_that_fails_says_so_and_ends_with_code_1(capfd):
    here, there = os.pipe()
    child = spawn(describe, there, wrong=1)
    assert child.exit_code(SECS) == 1
    child.end()
    os.close(here)
    assert "unexpected keyword argument 'wrong'" in capfd.readouterr().err


def pause(descriptor):
    """Wait for ever; what is given is not used."""
    signal.pause()


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_children_end_with_an_owner_that_is_killed(start):
    program = (
        "import os, signal; from tests.utils.test_child_process import fork, pause, spawn\n"
        "children = []\n"
        "for _ in range(2):\n"
        "    others = [each for child in children for each in child.descriptors]\n"
    )
    program += {
        "spawn": "    children.append(spawn(pause, os.dup(1)))\n",
        "fork": "    children.append(fork(signal.pause, others))\n",
    }[start]
    program += "print(*[child.pid for child in children], flush=True); signal.pause()"
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    children = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    owner.kill()
    owner.communicate(timeout=SECS)
    _, alive = psutil.wait_procs(children, timeout=SECS)
    for child in alive:
        child.kill()
    assert len(children) == 2
    assert alive == []


def test_child_that_cannot_be_started_leaves_nothing(monkeypatch):
    def refuse(*args, **options):
        raise OSError("too many processes")

    before = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="too many processes"):
        spawn_child(describe, {}, name="child")
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("has_sentinel", [True, False])
def test_new_interpreter_that_does_not_end_when_asked_is_killed(monkeypatch, has_sentinel):
    if not has_sentinel:
        monkeypatch.delattr(os, "pidfd_open")
    here, there = os.pipe()
    child = spawn(ignore_sigterm, there)
    assert os.read(here, 1) == b"x"
    os.close(here)
    assert (child.sentinel is not None) == has_sentinel
    child.terminate(0.1)
    assert child.exit_code(0) == -signal.SIGKILL


def test_child_goes_on_in_a_fork_of_its_owner_that_ends_it():
    child = fork(wait_for_ever)

    def end():
        child.signal(signal.SIGKILL)
        child.end(0)
        return len(child.descriptors)

    other = fork_child(end, name="other")
    assert other.exit_code(SECS) == 0
    other.end()
    assert psutil.pid_exists(child.pid)
    assert child.exit_code(0) is None
    child.terminate()


def test_child_leaves_no_descriptor_behind():
    before = sorted(os.listdir("/proc/self/fd"))
    child = fork(lambda: 0)
    assert len(child.descriptors) == 2
    child.end(SECS)
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("code", [0, 7])
def test_exit_code_is_what_the_function_returns(code):
    child = fork(lambda: code)
    assert child.exit_code(SECS) == code
    assert child.exit_code(0) == code
    child.end()


def test_function_that_raises_ends_with_code_1(capfd):
    child = fork(lambda: 1 / 0)
    assert child.exit_code(SECS) == 1
    child.end()


def test_nothing_of_the_parents_exit_happens_in_the_fork(tmp_path):
    program = (
        "import atexit, sys; from tpack.utils.child_process import fork_child\n"
        "atexit.register(print, 'exit'); sys.stdout.write('before ')\n"
        "fork_child(lambda: 0, name='child').end(30)"
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

        child = fork(say_and_wait, [here.fileno()])
        assert here.recv(1) == b"x"
        child.signal(signal.SIGTERM)
        assert child.exit_code(SECS) == -signal.SIGTERM
        child.end()
        here.close()
        there.close()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_process_that_does_not_end_is_killed():
    child = fork(wait_for_ever)
    assert child.exit_code(0) is None
    child.end(0.0)
    assert child.exit_code(0) == -signal.SIGKILL
    child.signal(signal.SIGKILL)


def test_process_is_waited_for_where_the_system_cannot_say_when_it_ends(monkeypatch):
    def refuse(pid):
        raise OSError("no such call")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    child = fork(lambda: 3)
    assert child.sentinel is None
    assert child.exit_code(SECS) == 3
    child.end()
    endless = fork(wait_for_ever)
    endless.signal(signal.SIGTERM)
    endless.end()
    assert endless.exit_code(0) == -signal.SIGTERM


def test_descriptors_of_the_parent_are_closed_in_the_fork():
    reading, writing = os.pipe()
    child = fork(lambda: int(os.path.exists(f"/proc/self/fd/{writing}")), [writing])
    assert child.exit_code(SECS) == 0
    child.end()
    os.close(reading)
    os.close(writing)


def test_a_process_that_is_gone_can_be_signalled():
    child = fork(lambda: 0)
    assert child.exit_code(SECS) == 0
    child.signal(signal.SIGTERM)
    child.end()


def test_fork_is_refused_while_there_are_other_threads():
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="the-other-one", daemon=True)
    thread.start()
    with pytest.raises(ConfigError, match=r"Owner was to fork a process with \d+ other threads .*'spawn'"):
        check_fork("Owner")
    end.set()
    thread.join()


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that are logged, in a process without other threads."""
    found = []
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    monkeypatch.setattr(logger, "warning", lambda message, *args: found.append(message % args))
    return found


def test_fork_after_tensorflow_is_warned_of(monkeypatch, warnings):
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    check_fork("Owner")
    assert len(warnings) == 1
    assert "Owner forks a process that has loaded TensorFlow" in warnings[0]


def test_fork_of_a_plain_process_is_fine(monkeypatch, warnings):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    check_fork("Owner")
    assert warnings == []


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_anonymous_file_lives_for_as_long_as_it_is_open(monkeypatch, has_memory_files):
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    before = sorted(os.listdir("/proc/self/fd"))
    with anonymous_file(5) as descriptor:
        assert os.pread(descriptor, 9, 0) == bytes(5)
    assert sorted(os.listdir("/proc/self/fd")) == before
