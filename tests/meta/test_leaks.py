"""The leak check finds each kind of thing that can be left behind, and forgives what ends by itself."""

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from multiprocessing import resource_tracker, shared_memory

import psutil
import pytest

from tests.helpers import leaks
from tests.helpers.leaks import Snapshot
from tests.helpers.source import ROOT
from tpack.cli.launcher.process_tree import adopt_orphans

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def before() -> Snapshot:
    return Snapshot.take()


def test_nothing_left_is_no_leak(before):
    assert before.leaks(timeout_secs=0.0) == []


def test_child_process_is_found_until_it_ends(before):
    stop = FORK.Event()
    child = FORK.Process(target=stop.wait)
    child.start()
    found = before.leaks(timeout_secs=0.0)
    stop.set()
    assert before.leaks() == []
    # Its exit code is still there for the one who started it.
    child.join()
    assert child.exitcode == 0
    assert len(found) == 1
    assert f"child process {child.pid}" in found[0]


def test_thread_is_found_until_it_ends(before):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left-behind")
    thread.start()
    found = before.leaks(timeout_secs=0.0)
    stop.set()
    assert before.leaks() == []
    assert found == ["non-daemon thread 'left-behind'"]
    assert not thread.is_alive()


def test_daemon_thread_is_forgiven(before):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    thread.start()
    assert before.leaks(timeout_secs=0.0) == []
    stop.set()
    thread.join()


def test_listening_socket_is_found_until_it_is_closed(monkeypatch):
    monkeypatch.setattr(leaks, "_tensorflow_listens", lambda: False)
    before = Snapshot.take()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert before.leaks(timeout_secs=0.0) == [f"listening socket 127.0.0.1:{port}"]
    assert before.leaks(timeout_secs=0.0) == []


def test_shared_memory_is_found_until_it_is_unlinked(before):
    block = shared_memory.SharedMemory(create=True, size=8)
    try:
        found = before.leaks(timeout_secs=0.0)
    finally:
        block.close()
        block.unlink()
    assert found == [f"shared-memory block {block.name}"]
    assert before.leaks(timeout_secs=0.0) == []


def test_a_process_whose_parent_has_ended_is_found_by_its_marker(before):
    # The shell ends at once; what it started has another parent then.
    shell = subprocess.Popen(["sh", "-c", "sleep 100 >/dev/null & echo $!"], stdout=subprocess.PIPE, text=True)
    output, _ = shell.communicate()
    orphan = psutil.Process(int(output))
    try:
        assert os.getpid() not in {parent.pid for parent in orphan.parents()}
        found = before.leaks(timeout_secs=0.0)
    finally:
        orphan.kill()
    assert found == [f"child process {orphan.pid}: sleep 100"]
    assert before.leaks() == []


def test_a_process_of_another_program_is_no_leak(before):
    alien = {name: value for name, value in os.environ.items() if name != leaks._VARIABLE}
    command = ["sh", "-c", "sleep 100 >/dev/null & echo $!"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=alien, check=True).stdout
    try:
        assert before.leaks(timeout_secs=0.0) == []
    finally:
        psutil.Process(int(output)).kill()


def test_a_process_that_goes_on_adopting_others_is_found(before):
    assert adopt_orphans()
    found = before.leaks(timeout_secs=0.0)
    adopt_orphans(False)
    assert found == ["adoption of processes whose parent ends"]
    assert before.leaks() == []


def test_shared_memory_of_another_program_is_no_leak(before):
    path = leaks.SHARED_MEMORY / f"psm_other_{os.getpid()}"
    path.write_bytes(b"theirs")
    try:
        assert before.leaks(timeout_secs=0.0) == []
    finally:
        path.unlink()


def test_shared_memory_of_a_program_that_was_started_is_found(before):
    code = (
        "from tests.helpers.leaks import mark; mark()\n"
        "from multiprocessing import resource_tracker, shared_memory\n"
        "block = shared_memory.SharedMemory(create=True, size=8)\n"
        "resource_tracker.unregister(block._name, 'shared_memory')\n"
        "print(block.name)\n"
    )
    name = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
    found = before.leaks(timeout_secs=0.0)
    (leaks.SHARED_MEMORY / name.strip()).unlink()
    assert found == [f"shared-memory block {name.strip()}"]


def test_a_helper_that_has_no_command_line_yet_is_no_leak(before, monkeypatch):
    monkeypatch.setattr(leaks, "_command", lambda process: "python")
    block = shared_memory.SharedMemory(create=True, size=8)
    block.close()
    block.unlink()
    assert resource_tracker._resource_tracker._pid in {child.pid for child in psutil.Process().children()}
    assert before.leaks(timeout_secs=0.0) == []


def test_shared_memory_that_a_moment_later_is_gone_is_no_leak(before):
    block = shared_memory.SharedMemory(create=True, size=8)
    block.close()
    later = threading.Timer(0.2, block.unlink)
    later.daemon = True
    later.start()
    assert before.leaks(timeout_secs=30.0) == []
    later.join()
