"""``tpack watch`` in a pipe, and on a terminal that is a pseudo one."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios

import pytest

from tests.helpers.source import ROOT
from tpack.callbacks.monitors.run_status import write_run
from tpack.cli.main import main

SECS = 300


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "stats.json").write_text(json.dumps([{"epoch_num": 1, "global_step": 5, "cost": 0.25}]))
    return [str(tmp_path / "a"), str(tmp_path / "later")]


def test_the_page_is_written_once_where_there_is_no_terminal(runs, capsys):
    assert main(["watch", *runs]) == 0
    text = capsys.readouterr().out
    assert text.startswith("this machine: load ")
    assert "cost 0.25" in text
    assert "later: nothing yet" in text
    assert "\x1b" not in text


def test_the_time_between_two_pages_must_be_positive(runs, capsys):
    assert main(["watch", "--every", "0", *runs]) == 2
    assert "--every got 0.0: expected a positive number of seconds" in capsys.readouterr().err


def read_until(descriptor, text, seen=""):
    """Read what comes until a text is there."""
    while text not in seen:
        assert select.select([descriptor], [], [], SECS)[0], f"no {text!r} in {seen!r}"
        seen += os.read(descriptor, 65536).decode(errors="replace")
    return seen


@pytest.mark.parametrize("leave", ["q", "Ctrl-C", "SIGTERM"])
def test_the_page_follows_the_runs_and_the_terminal_is_left_as_it_was(runs, leave):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "tpack", "watch", "--every", "0.1", *runs]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        read_until(ours, "nothing yet")
        os.makedirs(runs[1])
        write_run(runs[1], {"state": "running", "versions": {}, "config": {}, "progress": {"epoch": 7}})
        read_until(ours, "later: running, epoch 7")
        if leave == "q":
            os.write(ours, b"q")
        else:
            os.kill(process.pid, signal.SIGINT if leave == "Ctrl-C" else signal.SIGTERM)
        rest = read_until(ours, "\x1b[?25h\x1b[?1049l")
        assert process.wait(SECS) == 0, rest
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
