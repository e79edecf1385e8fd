"""Settings of progress bars."""

import io
import sys

import pytest

from tpack.errors import ConfigError
from tpack.utils.progress import get_tqdm, get_tqdm_kwargs


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    """The variable that changes the default is not set."""
    monkeypatch.delenv("TPACK_PROGRESS_REFRESH", raising=False)


@pytest.mark.parametrize(("stream", "interval"), [(Terminal(), 0.5), (io.StringIO(), 60), (None, 60)])
def test_bar_is_drawn_often_on_a_terminal_only(stream, interval, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    assert get_tqdm_kwargs()["mininterval"] == interval


def test_variable_sets_the_interval(monkeypatch):
    monkeypatch.setenv("TPACK_PROGRESS_REFRESH", "7.5")
    assert get_tqdm_kwargs()["mininterval"] == 7.5


@pytest.mark.parametrize("text", ["often", "0", "-1", "nan", ""])
def test_bad_variable_raises(text, monkeypatch):
    monkeypatch.setenv("TPACK_PROGRESS_REFRESH", text)
    with pytest.raises(ConfigError, match="wanted a positive number of seconds"):
        get_tqdm_kwargs()


def test_own_arguments_win():
    assert get_tqdm_kwargs(mininterval=3, desc="train")["mininterval"] == 3


def test_bar_counts_and_writes_to_its_file():
    stream = io.StringIO()
    assert list(get_tqdm([1, 2, 3], file=stream)) == [1, 2, 3]
    assert "3/3" in stream.getvalue()
