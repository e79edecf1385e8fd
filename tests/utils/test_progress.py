"""Settings of progress bars, and the line by which a process tells a launcher how far it is."""

import io
import json
import os
import sys
import types

import pytest

from tpack.errors import ConfigError
from tpack.utils import progress
from tpack.utils.progress import (
    LINE_VARIABLE,
    get_tqdm,
    get_tqdm_kwargs,
    job_bar,
    launcher_line,
    line_of,
    open_launcher_line,
)


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    """The variables that change the default are not set."""
    monkeypatch.delenv("TPACK_PROGRESS_REFRESH", raising=False)
    monkeypatch.delenv(LINE_VARIABLE, raising=False)


@pytest.mark.parametrize(("stream", "interval"), [(Terminal(), 0.5), (io.StringIO(), 60), (None, 60)])
def test_bar_is_drawn_often_on_a_terminal_only(stream, interval, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    assert get_tqdm_kwargs()["mininterval"] == interval


@pytest.fixture
def notebook(monkeypatch):
    """What bars of a notebook are made with; ipywidgets is installed."""
    made = []
    module = types.SimpleNamespace(tqdm=lambda **arguments: made.append(arguments))
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress.importlib.util, "find_spec", {"ipywidgets": module}.get)
    monkeypatch.setitem(sys.modules, "tqdm.notebook", module)
    return made


def test_in_a_notebook_bars_are_those_of_notebooks_and_drawn_often(notebook):
    get_tqdm(total=3)
    assert (notebook[0]["total"], notebook[0]["mininterval"]) == (3, 0.5)


def test_in_a_notebook_without_widgets_bars_are_drawn_on_standard_output(notebook, monkeypatch, capsys):
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    with get_tqdm(total=3) as bar:
        bar.update(3)
    out, err = capsys.readouterr()
    assert ("3/3" in out, err, notebook) == (True, "", [])


def test_in_a_notebook_a_file_gets_a_bar_of_text(notebook):
    stream = io.StringIO()
    assert list(get_tqdm([1, 2, 3], file=stream)) == [1, 2, 3]
    assert ("3/3" in stream.getvalue(), notebook) == (True, [])


def test_variable_sets_the_interval(monkeypatch):
    monkeypatch.setenv("TPACK_PROGRESS_REFRESH", "7.5")
    assert get_tqdm_kwargs()["mininterval"] == 7.5


@pytest.mark.parametrize("text", ["often", "0", "-1", "nan", ""])
def test_bad_variable_raises(text, monkeypatch):
    monkeypatch.setenv("TPACK_PROGRESS_REFRESH", text)
    with pytest.raises(ConfigError, match="expected a positive number of seconds"):
        get_tqdm_kwargs()


def test_own_arguments_win():
    assert get_tqdm_kwargs(mininterval=3, desc="train")["mininterval"] == 3


def test_bar_counts_and_writes_to_its_file():
    stream = io.StringIO()
    assert list(get_tqdm([1, 2, 3], file=stream)) == [1, 2, 3]
    assert "3/3" in stream.getvalue()


@pytest.fixture
def line(monkeypatch):
    """The end of a launcher's line that is read; this process has the other one."""
    read_end, write_end = open_launcher_line()
    monkeypatch.setenv(LINE_VARIABLE, line_of(write_end, shows_bar=True)[LINE_VARIABLE])
    yield read_end
    os.close(read_end)
    os.close(write_end)


def messages(read_end):
    return [json.loads(text) for text in os.read(read_end, 1 << 16).splitlines()]


def test_a_launcher_is_told_how_far_it_is_and_gets_the_bars(line):
    launcher_line().tell({"step": 3})
    assert list(get_tqdm(range(3), desc="mine")) == [0, 1, 2]
    first, *bars = messages(line)
    assert first == {"progress": {"step": 3}}
    assert [bar["bar"].split("[")[0].split("|")[-1].strip() for bar in bars] == ["0/3", "3/3"]
    assert all(bar["bar"].startswith("mine:") for bar in bars)


def test_what_a_launcher_does_not_read_is_dropped(line):
    told = launcher_line()
    for number in range(5000):
        told.tell({"step": number, "text": "x" * 100})
    # A pipe holds no more than this.
    numbers = [json.loads(text)["progress"]["step"] for text in os.read(line, 1 << 20).splitlines()]
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < 5000
    told.tell({"step": 5000})
    assert messages(line) == [{"progress": {"step": 5000}}]


def test_a_launcher_that_is_gone_is_told_nothing(monkeypatch):
    read_end, write_end = open_launcher_line()
    monkeypatch.setenv(LINE_VARIABLE, line_of(write_end, shows_bar=True)[LINE_VARIABLE])
    line = launcher_line()
    os.close(read_end)
    assert line.tell({"step": 1}) is None
    os.close(write_end)


@pytest.mark.parametrize("told", ["", "x", "1000000:1", "{here}:1", "{here}"])
def test_a_line_that_is_somebody_elses_is_left_alone(line, monkeypatch, told):
    monkeypatch.setenv(LINE_VARIABLE, told.format(here=os.environ[LINE_VARIABLE].split(":")[0]))
    assert launcher_line() is None
    assert "file" not in get_tqdm_kwargs()


def test_a_bar_of_a_job_fits_into_its_columns():
    told = {"epoch": 2, "epochs": 3, "step": 25, "steps": 100, "secs": 5.0, "speed": 5.0, "values": {"cost": "0.5"}}
    bar = job_bar(told, 80, ", rank 3 is behind")
    assert bar.startswith("epoch 2/3, rank 3 is behind:  25%|")
    assert bar.endswith("| 25/100 [00:05<00:15,  5.00it/s, cost=0.5]")
    assert len(bar) == 80
    assert len(job_bar({**told, "speed": 0.0}, 20)) == 20
