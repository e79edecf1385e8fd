"""Processes below this one, and ending them; what ends others is tried in processes of its own."""

import itertools
import os
import signal
import subprocess
import sys

import psutil

from tests.helpers.source import ROOT
from tpack.cli.launcher import process_tree as tree
from tpack.cli.launcher.process_tree import descendants, end_all

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]

# A child starts a process in the background, of which it says the number, and ends.
ADOPTING = """
import subprocess, sys
from tpack.cli.launcher import process_tree as tree
from tpack.cli.launcher.process_tree import adopt_orphans, descendants, end_all
assert adopt_orphans()
child = "import subprocess, sys; command = [sys.executable, '-S', '-c', {code!r}]\\n"
child += "print(subprocess.Popen(command, start_new_session=True).pid)"
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
started = subprocess.Popen([sys.executable, "-c", child.format(code=code)], stdout=subprocess.PIPE, text=True)
lines = sorted(started.stdout.readline().strip() for _ in range(2))
started.wait()
assert lines[1] == "deaf", lines
print(end_all(descendants, 0.1) == [int(lines[0])], descendants())
"""


def test_what_lost_its_parent_is_ended_too():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", ADOPTING], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("True []\n", "")


def test_a_clock_that_is_set_back_hides_nobody(monkeypatch):
    clock = itertools.count(2_000_000_000, -10)
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: next(clock))
    child = subprocess.Popen(SLEEP)
    try:
        assert child.pid in [process.pid for process in descendants()]
    finally:
        child.kill()
        child.wait()


def test_one_whose_parent_ends_while_they_are_read_is_found(monkeypatch):
    # 30 is read while 20 is its parent; 20 ends, and 10 takes 30.
    parents = {10: [1], 20: [None], 30: [20, 10]}
    monkeypatch.setattr(psutil, "pids", lambda: [1, 30, 20, 10])
    monkeypatch.setattr(tree, "_parent", lambda pid: 0 if pid == 1 else parents[pid].pop(0))
    assert tree._below(10, tree._parents()) == [30]


def test_only_those_that_are_wanted_are_ended():
    wanted, other = subprocess.Popen(SLEEP), subprocess.Popen(SLEEP)
    try:
        found = descendants(lambda process: process.pid == wanted.pid)
        assert [process.pid for process in found] == [wanted.pid]
        end_all(lambda: [process for process in found if wanted.poll() is None], 30)
        assert wanted.returncode in (-signal.SIGTERM, 0)
        assert other.poll() is None
    finally:
        for process in (wanted, other):
            process.kill()
            process.wait()


DYING = """
import functools, os, subprocess, sys
from tpack.cli.launcher import process_tree as tree
from tpack.cli.launcher.process_tree import die_with_parent
child = subprocess.Popen({sleep!r}, preexec_fn=functools.partial(die_with_parent, {parent}))
print(child.pid, flush=True)
if {waits}:
    child.wait()
    print(child.returncode)
"""


def test_a_child_whose_parent_has_gone_already_is_killed():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = DYING.format(sleep=SLEEP, parent=1, waits=True)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split()[1] == str(-signal.SIGKILL), done.stderr
