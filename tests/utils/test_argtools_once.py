"""Things that happen once."""

import uuid

import pytest

from tpack.errors import ConfigError
from tpack.utils.argtools import execute_only_once, log_once


def test_each_line_is_executed_once():
    first = [execute_only_once() for _ in range(3)]
    second = [execute_only_once() for _ in range(3)]
    assert first == second == [True, False, False]


@pytest.mark.parametrize(("func", "mark"), [("info", "] "), ("warn", "WRN "), ("error", "ERR ")])
def test_message_is_logged_once_at_the_callers_place(func, mark, capsys):
    message = f"seen {uuid.uuid4()}"
    for _ in range(3):
        log_once(message, func)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(mark + message)
    assert "@test_argtools_once.py:" in line


def test_unknown_level_raises():
    with pytest.raises(ConfigError, match="func='shout': wanted one of debug, info"):
        log_once("a", "shout")
