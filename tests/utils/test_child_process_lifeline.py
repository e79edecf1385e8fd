"""Processes that end when the other end of a pipe is closed."""

import os
import signal
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT

# It computes for ever, or waits in C; after a line on its output.
PROGRAM = """
import fcntl, os, sys
{before}
from tpack.utils.child_process import die_with_owner
die_with_owner(int(sys.argv[1]))
print("ready", flush=True)
{then}
"""
WITHOUT_KERNEL = "del fcntl.F_SETSIG"


def start(before, then):
    there, here = os.pipe()
    program = [sys.executable, "-c", PROGRAM.format(before=before, then=then), str(there)]
    process = subprocess.Popen(program, cwd=ROOT, pass_fds=[there], stdout=subprocess.PIPE, text=True)
    os.close(there)
    return process, here


@pytest.mark.parametrize(
    ("before", "then"),
    [("", "while True: pass"), ("", "os.read(os.pipe()[0], 1)"), (WITHOUT_KERNEL, "os.read(os.pipe()[0], 1)")],
    ids=["that computes", "that waits", "by a thread"],
)
def test_process_is_killed_when_the_other_end_is_closed(before, then):
    process, here = start(before, then)
    assert process.stdout.readline() == "ready\n"
    assert process.poll() is None
    os.close(here)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL


def test_process_is_killed_at_once_when_the_other_end_is_closed_already():
    process, here = start("import select; select.select([int(sys.argv[1])], [], [])", "while True: pass")
    os.close(here)
    output, _ = process.communicate(timeout=300)
    assert (output, process.returncode) == ("", -signal.SIGKILL)
