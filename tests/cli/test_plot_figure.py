"""What is in the figure that is drawn."""

import io
import sys

import numpy as np
import pytest

from tpack.cli.plot import _draw, _Run
from tpack.errors import DependencyError


def make_run(label, *, num_epochs=5, stats=("cost", "accuracy", "rate", "norm")):
    return _Run(
        label,
        [
            {"epoch_num": k, "global_step": 10 * k, **{name: k * (n + 1.0) for n, name in enumerate(stats)}}
            for k in range(1, num_epochs + 1)
        ],
    )


def visible(figure):
    return [panel for panel in figure.axes if panel.axison]


def test_each_statistic_has_a_panel_with_a_line_for_each_run():
    figure = _draw([make_run("a"), make_run("_b", num_epochs=3)], ["cost", "accuracy", "rate", "norm"], "epoch")
    panels = visible(figure)
    assert [panel.get_title(loc="left") for panel in panels] == ["cost", "accuracy", "rate", "norm"]
    for number, panel in enumerate(panels, 1):
        first, second = panel.get_lines()
        np.testing.assert_array_equal(first.get_xdata(), [1, 2, 3, 4, 5])
        np.testing.assert_array_equal(second.get_ydata(), [number, 2 * number, 3 * number])
        assert first.get_color() != second.get_color()
    # The first row has three panels, of which the first stands above the second row's.
    assert [panel.get_xlabel() for panel in panels] == ["", "epoch", "epoch", "epoch"]
    assert [text.get_text().strip() for text in figure.legends[0].get_texts()] == ["a", "_b"]


def test_one_run_is_named_by_a_title():
    figure = _draw([make_run("only")], ["cost"], "step")
    assert figure.get_suptitle() == "only"
    assert figure.legends == []
    np.testing.assert_array_equal(visible(figure)[0].get_lines()[0].get_xdata(), [10, 20, 30, 40, 50])


def test_runs_that_lack_a_statistic_keep_their_colours():
    figure = _draw([make_run("a", stats=("cost",)), make_run("b", stats=("cost", "late"))], ["late", "cost"], "epoch")
    late, cost = visible(figure)
    assert [len(line.get_xdata()) for line in late.get_lines()] == [0, 5]
    assert late.get_lines()[1].get_color() == cost.get_lines()[1].get_color()


def test_many_runs_are_all_told_apart():
    figure = _draw([make_run(str(k)) for k in range(20)], ["cost"], "epoch")
    looks = {(line.get_color(), line.get_linestyle()) for line in visible(figure)[0].get_lines()}
    assert len(looks) == 20


@pytest.mark.parametrize(("num_epochs", "marker"), [(40, "o"), (41, "None")])
def test_few_points_are_marked(num_epochs, marker):
    panel = visible(_draw([make_run("a", num_epochs=num_epochs)], ["cost"], "epoch"))[0]
    assert panel.get_lines()[0].get_marker() == marker


def test_pyplot_is_not_needed(monkeypatch):
    # It would choose a backend for the process, and perhaps open a window.
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    file = io.BytesIO()
    _draw([make_run("a")], ["cost"], "epoch").savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_matplotlib_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DependencyError, match=r"tpack\[plot\]"):
        _draw([make_run("a")], ["cost"], "epoch")
