"""The look of log lines: marks by level, colours on a terminal only."""

import io
import logging
import sys
import types

import pytest

from tpack.utils import logger
from tpack.utils.logger import ConsoleHandler, LineFormatter, in_notebook


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self):
        return True


def make_record(level=logging.INFO, exc_info=None):
    return logging.LogRecord("tpack", level, "/somewhere/model.py", 7, "cost is %d", (3,), exc_info)


@pytest.mark.parametrize(
    ("level", "end"),
    [
        (logging.DEBUG, "@model.py:7] DBG cost is 3"),
        (logging.INFO, "@model.py:7] cost is 3"),
        (logging.WARNING, "@model.py:7] WRN cost is 3"),
        (logging.ERROR, "@model.py:7] ERR cost is 3"),
        (logging.CRITICAL, "@model.py:7] ERR cost is 3"),
    ],
)
def test_plain_line_has_time_place_and_mark(level, end):
    line = LineFormatter().format(make_record(level))
    assert line.endswith(end)
    assert line.startswith("[")


def test_coloured_line_has_same_text_around_colours():
    line = LineFormatter(coloured=True).format(make_record(logging.WARNING))
    assert "\033[33mWRN\033[0m cost is 3" in line


def test_traceback_follows_the_line():
    try:
        raise KeyError("lost")
    except KeyError:
        line = LineFormatter().format(make_record(exc_info=sys.exc_info()))
    assert line.splitlines()[1].startswith("Traceback")
    assert line.endswith("KeyError: 'lost'")


@pytest.mark.parametrize(("stream", "coloured"), [(io.StringIO(), False), (Terminal(), True)])
def test_handler_colours_a_terminal_only(stream, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    ConsoleHandler().emit(make_record())
    assert ("\033[" in stream.getvalue()) == coloured


def test_no_color_variable_turns_colours_off(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", stream)
    ConsoleHandler().emit(make_record())
    assert "\033[" not in stream.getvalue()


def test_missing_stderr_is_survived(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    ConsoleHandler().emit(make_record())
    assert capsys.readouterr().out == ""


def test_in_a_notebook_lines_go_to_standard_output(monkeypatch, capsys):
    monkeypatch.setattr(logger, "in_notebook", lambda: True)
    ConsoleHandler().emit(make_record())
    out, err = capsys.readouterr()
    assert out.endswith("cost is 3\n")
    assert err == ""


def test_failing_record_is_reported_and_not_raised(capsys):
    bad = logging.LogRecord("tpack", logging.INFO, "model.py", 7, "%d", ("text",), None)
    ConsoleHandler().emit(bad)
    assert "--- Logging error ---" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (None, False),
        (types.SimpleNamespace(), False),
        (types.SimpleNamespace(get_ipython=lambda: None), False),
        (types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=None)), False),
        (types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object())), True),
    ],
    ids=["not imported", "being imported", "no shell", "shell of a terminal", "kernel"],
)
def test_a_notebook_is_where_the_shell_has_a_kernel(monkeypatch, module, expected):
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert in_notebook() is expected
