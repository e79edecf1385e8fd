"""Output on the terminal and in files."""

import io
import os
import threading

import pytest

from tpack.cli.launcher.console import Console
from tpack.cli.launcher.plan import Host, make_plan

PLAN = make_plan((Host(), Host()), 1, False)


def test_lines_stand_with_their_rank_on_the_terminal_and_without_it_in_files(tmp_path):
    streams = io.StringIO(), io.StringIO()
    console = Console(str(tmp_path), streams)
    console.put(PLAN[0], 1, "a line")
    console.put(PLAN[2], 2, "no text \udcff")
    console.say("something")
    console.begin(1)
    console.put(PLAN[0], 1, "another")
    assert console.last_lines(PLAN[0]) == ["another"]
    assert console.last_lines(PLAN[1]) == []
    console.close()
    assert streams[0].getvalue() == "[0] a line\n[0] another\n"
    assert streams[1].getvalue() == "[2:ps] no text �\ntpack launch: something\n"
    assert (tmp_path / "rank0.log").read_bytes() == b"a line\n--- restart 1 ---\nanother\n"
    assert (tmp_path / "rank2.log").read_bytes() == b"no text \xff\n--- restart 1 ---\n"


def test_only_the_last_lines_are_kept(tmp_path):
    console = Console(str(tmp_path), (io.StringIO(), io.StringIO()))
    for number in range(100):
        console.put(PLAN[1], 1, str(number))
    console.close()
    assert console.last_lines(PLAN[1]) == [str(number) for number in range(80, 100)]


class Stuck(io.StringIO):
    """A terminal that takes nothing until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def write(self, text):
        self.go.wait(30)
        return super().write(text)


def test_a_terminal_that_is_stuck_keeps_nobody_but_is_told_of(tmp_path):
    stuck = Stuck()
    console = Console(str(tmp_path), (stuck, io.StringIO()))
    assert not console.is_full
    for number in range(3000):
        console.put(PLAN[0], 1, str(number))
    assert console.is_full
    stuck.go.set()
    console.close()
    assert not console.is_full
    assert stuck.getvalue().splitlines()[-1] == "[0] 2999"


class Closed(io.StringIO):
    """A terminal that has gone."""

    def write(self, text):
        raise BrokenPipeError("gone")


@pytest.mark.parametrize("terminal", [Closed, lambda: io.TextIOWrapper(io.BytesIO(), "ascii")])
def test_a_terminal_that_is_gone_or_knows_few_letters_is_no_failure(tmp_path, terminal):
    console = Console(str(tmp_path), (terminal(), io.StringIO()))
    console.put(PLAN[0], 1, "größer")
    console.close()
    assert (tmp_path / "rank0.log").read_text(encoding="utf-8") == "größer\n"
    assert os.listdir(tmp_path) == ["rank0.log"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal, of no known size."""

    def isatty(self):
        return True


def told(step, epoch=1, speed=1.0):
    progress = {"epoch": epoch, "epochs": 2, "step": step, "steps": 50, "secs": 1.0, "speed": speed, "values": {}}
    return {"progress": progress}


def test_the_bar_is_that_of_the_last_worker_which_is_named_if_it_is_behind(tmp_path):
    terminal = Terminal()
    console = Console(str(tmp_path), (terminal, terminal))
    assert console.shows_progress
    console.take_progress(PLAN[0], told(10))
    console.take_progress(PLAN[1], told(8))
    # A parameter server trains nothing.
    console.take_progress(PLAN[2], told(1))
    console.take_progress(PLAN[1], told(9))
    console.take_progress(PLAN[0], told(1, epoch=2))
    console.take_progress(PLAN[1], told(50))
    console.begin(1)
    console.take_progress(PLAN[1], told(20))
    console.take_progress(PLAN[0], {"bar": "my own"})
    console.close()
    last = [line.rpartition("\r")[2] for line in terminal.getvalue().splitlines()]
    assert last[-1].startswith("epoch 1/2:  40%|")
    assert (tmp_path / "rank0.log").read_text() == "my own\n"


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        (told(10), told(9), "epoch 1/2:"),
        (told(10), told(7), "epoch 1/2, rank 1 is behind:"),
        (told(10, speed=2.0), told(7), "epoch 1/2:"),
        (told(5, epoch=2), told(50), "epoch 1/2, rank 1 is behind:"),
        (told(1, epoch=2), told(50), "epoch 1/2:"),
    ],
)
def test_who_is_behind_the_others_is_named(tmp_path, first, second, label):
    terminal = Terminal()
    console = Console(str(tmp_path), (io.StringIO(), terminal))
    console.take_progress(PLAN[0], first)
    console.take_progress(PLAN[1], second)
    console.close()
    assert terminal.getvalue().splitlines()[-1].rpartition("\r")[2].startswith(label)
