"""The rows of a run as a table."""

import re
import sys
import types

import pytest

from tpack.callbacks.monitors.history import MOST_ROWS_SHOWN, History
from tpack.errors import DependencyError

ROWS = [
    {"epoch_num": 1, "global_step": 5, "cost": 0.123456789},
    {"epoch_num": 2, "global_step": 10, "cost": 2.0, "<error>": 7},
]


def cells(history):
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", history._repr_html_())]


def test_a_history_is_a_list_of_its_rows():
    assert History(ROWS) == ROWS
    assert History() == []
    assert History(ROWS)[0]["cost"] == 0.123456789


def test_a_notebook_shows_a_table():
    assert cells(History(ROWS)) == [
        ["epoch_num", "global_step", "cost", "&lt;error&gt;"],
        ["1", "5", "0.12346", ""],
        ["2", "10", "2", "7"],
    ]


def test_of_a_long_history_the_first_and_the_last_rows_are_shown():
    history = History({"epoch_num": epoch, "global_step": epoch} for epoch in range(1, 201))
    half = MOST_ROWS_SHOWN // 2
    epochs = [row[0] for row in cells(history)[1:]]
    assert epochs == [*map(str, range(1, half + 1)), "…", *map(str, range(201 - half, 201))]
    assert "200 rows" in history._repr_html_()


def test_pandas_gets_rows_and_columns(monkeypatch):
    pandas = types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    rows, columns = History(ROWS).to_pandas()
    assert rows == ROWS
    assert columns == ["epoch_num", "global_step", "cost", "<error>"]


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DependencyError, match=r"pip install 'tpack\[notebook\]'"):
        History(ROWS).to_pandas()
