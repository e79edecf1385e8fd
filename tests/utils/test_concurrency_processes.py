"""Child processes that end with their parent, seen from real ones."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.helpers.source import ROOT
from tpack.errors import ConfigError
from tpack.utils.concurrency import enable_death_signal, ensure_proc_terminate, mask_sigint, start_proc_mask_signal

WAIT_SECS = 300
FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the state of Linux processes")

# A program whose child waits for ever; it prints the child's id when that is ready, and goes on when it gets a line.
PROGRAM = """
import multiprocessing, os, signal, sys
from tpack.utils.concurrency import enable_death_signal, ensure_proc_terminate

def child(pipe, ignore_term, ask_kernel):
    if ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if ask_kernel:
        enable_death_signal(signal.SIGKILL)
    pipe.send(os.getpid())
    signal.pause()

def start(ignore_term, ask_kernel):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(there, ignore_term, ask_kernel))
    process.start()
    print(here.recv(), flush=True)
    sys.stdin.readline()
    return process
"""


def start_program(end):
    """Start PROGRAM with the lines `end`; return it and the id of its child."""
    command = [sys.executable, "-c", PROGRAM + end]
    program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(program.stdout.readline()))
    program.stdin.write("\n")
    program.stdin.flush()
    return program, child


def finish(program, child):
    """Wait for the program; return whether its child has ended too, which is made sure of."""
    program.communicate(timeout=WAIT_SECS)
    _, alive = psutil.wait_procs([child], timeout=WAIT_SECS)
    for process in alive:
        process.kill()
    return not alive


@pytest.mark.parametrize("ignore_term", [False, True], ids=["on SIGTERM", "on SIGKILL"])
def test_ensured_process_ends_at_exit(ignore_term):
    shorter = "import tpack.utils.concurrency as p; p._TERMINATE_SECS = 0.2\n"
    program, child = start_program(f"{shorter}process = start({ignore_term}, False); ensure_proc_terminate([process])")
    assert finish(program, child)
    assert program.returncode == 0


def test_ensured_process_that_was_never_started_or_is_gone_does_no_harm():
    end = "ensure_proc_terminate(multiprocessing.Process()); q = multiprocessing.Process(); ensure_proc_terminate(q)\n"
    program, child = start_program(f"{end}process = start(False, False); process.terminate(); process.join()")
    assert finish(program, child)
    assert program.returncode == 0


def test_fork_of_the_owner_does_not_end_its_processes():
    end = (
        "process = start(False, False); ensure_proc_terminate(process)\n"
        "fork = os.fork()\n"
        "if fork == 0: sys.exit()\n"
        "os.waitpid(fork, 0); print(process.is_alive())"
    )
    program, child = start_program(end)
    assert program.stdout.readline() == "True\n"
    assert finish(program, child)


def test_death_signal_ends_the_child_of_a_killed_process():
    program, child = start_program("process = start(False, True); signal.pause()")
    program.kill()
    assert finish(program, child)


def test_death_signal_is_refused_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert enable_death_signal() is False


def test_death_signal_reports_what_the_kernel_refuses():
    assert enable_death_signal(10_000) is False


def test_death_signal_is_sent_at_once_if_the_parent_is_gone(monkeypatch):
    class Gone:
        def is_alive(self):
            return False

    sent = []
    monkeypatch.setattr(multiprocessing, "parent_process", Gone)
    monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
    # Signal 0 asks the kernel for no signal, so that the test process keeps living as it did.
    assert enable_death_signal(0) is True
    assert sent == [(os.getpid(), 0)]


def blocked_signals(pipe):
    pipe.send(signal.pthread_sigmask(signal.SIG_BLOCK, []))


@pytest.mark.parametrize("as_list", [False, True])
def test_started_processes_have_sigint_blocked(as_list):
    here, there = FORK.Pipe()
    process = FORK.Process(target=blocked_signals, args=(there,))
    start_proc_mask_signal([process] if as_list else process)
    assert signal.SIGINT in here.recv()
    process.join(WAIT_SECS)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_interrupt_during_the_mask_arrives_after_it():
    reached = False
    with pytest.raises(KeyboardInterrupt), mask_sigint() as is_masked:
        # To this thread, which is the one that masks it: any other would take a signal to the process.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        reached = True
    assert reached
    assert is_masked


def test_mask_does_nothing_where_signals_cannot_be_blocked(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    with mask_sigint() as is_masked:
        assert is_masked is False


def test_ensure_takes_any_iterable():
    processes = [FORK.Process() for _ in range(2)]
    ensure_proc_terminate(process for process in processes)
    assert [process.pid for process in processes] == [None, None]


def test_threads_and_whatever_else_starts_are_started_too():
    ran = []
    thread = threading.Thread(target=lambda: ran.append("thread"))

    class Simulator:
        def start(self):
            ran.append("simulator")

    start_proc_mask_signal([thread, Simulator()])
    thread.join(WAIT_SECS)
    start_proc_mask_signal(Simulator())
    assert sorted(ran) == ["simulator", "simulator", "thread"]


@pytest.mark.parametrize("wrong", [5, None, "process"])
def test_nothing_is_started_when_one_cannot_be(wrong):
    ran = []
    thread = threading.Thread(target=lambda: ran.append(1))
    with pytest.raises(ConfigError, match=r"start_proc_mask_signal got proc=.*expected what has start\(\)"):
        start_proc_mask_signal([thread, wrong])
    with pytest.raises(ConfigError, match="start_proc_mask_signal got proc="):
        start_proc_mask_signal(wrong)
    assert ran == []
