"""Processes below this one, and ending them; what ends others is tried in processes of its own."""

import os
import signal
import subprocess
import sys

from tests.helpers.source import ROOT
from tpack.cli.launcher.descendants import descendants, end_all

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]

# A child starts a process in the background, of which it says the number, and ends.
ADOPTING = """
import subprocess, sys
from tpack.cli.launcher.descendants import adopt_orphans, descendants, end_all
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
        [sys.executable, "-c", ADOPTING], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True []\n", "")


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
from tpack.cli.launcher.descendants import die_with_parent
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
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split()[1] == str(-signal.SIGKILL), done.stderr
