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
