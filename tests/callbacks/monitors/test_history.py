"""The rows of a run as a table."""

import math
import re
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack import ModelDesc, SimpleTrainer, TrainConfig, launch_train_with_config
from tpack.callbacks.monitors.history import MOST_ROWS_SHOWN, History, plot_and_table
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


def test_a_plot_has_a_curve_for_each_statistic_with_gaps():
    rows = History(
        {"epoch_num": at, "global_step": at, "<cost>": math.nan if at == 3 else 1 / at} for at in range(1, 8)
    )
    shown = plot_and_table(rows)
    (path,) = re.findall(r'<path d="(.*?)"', shown)
    assert (path.count("M"), path.count("L")) == (2, 4)
    assert path.startswith("M0.0 0.0L")
    assert path.endswith("240.0 90.0")
    assert "&lt;cost&gt;: 0.14286, of 0.14286 to 1" in shown
    assert shown.count("<table>") == 1
    huge = History({"epoch_num": 1, "global_step": at, "cost": sign * 1.7e308} for at, sign in ((1, -1), (2, 1)))
    assert "M0.0 90.0L240.0 0.0" in plot_and_table(huge)
    assert plot_and_table(History({"epoch_num": 1, "global_step": at, "a": 1} for at in range(9999))).count("L") <= 300


class _Line(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(tf.square(x - tf.get_variable("w", [], initializer=tf.zeros_initializer())), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def test_a_run_in_a_notebook_shows_one_plot_that_is_replaced_in_place(monkeypatch, tmp_path):
    shown, updates = [], []
    handle = types.SimpleNamespace(update=updates.append)

    def display(content, display_id):
        assert display_id is True
        shown.append(content)
        return handle

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    parts = types.ModuleType("IPython.display")
    parts.display, parts.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    data = np.ones(8, np.float32)
    config = TrainConfig(model=_Line(), dataflow=(data,), batch_size=4, max_epoch=3, log_dir=str(tmp_path / "log"))
    launch_train_with_config(config, SimpleTrainer())
    assert len(shown) == 1
    # The end always shows all, whatever the time since the last.
    assert "<p>3 rows</p>" in updates[-1]
    assert "cost: " in updates[-1]
