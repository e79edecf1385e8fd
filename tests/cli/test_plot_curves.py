"""What runs reported, and which of it is drawn."""

import json
import math

import numpy as np
import pytest

from tpack.callbacks.monitors.table_writer import JSONWriter
from tpack.cli.main import main
from tpack.cli.plot import _choose_stats, _read_runs, _Run, short_labels
from tpack.cli.runs.remote import run_directories
from tpack.errors import CallbackError, ConfigError

ENTRIES = [
    {"epoch_num": 1, "global_step": 10, "cost": 3.0, "rate": 0.1, "note": "text"},
    {"epoch_num": 2, "global_step": 20, "cost": math.nan, "rate": 0.1, "accuracy": 0.5},
    {"epoch_num": 3, "global_step": 30, "cost": math.inf, "rate": 0.1, "accuracy": 0.75},
]


def read_runs(given):
    with run_directories(given) as directories:
        return _read_runs(given, directories)


def write_run(directory, entries):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / JSONWriter.FILENAME).write_text(json.dumps(entries))
    return str(directory)


def test_runs_are_read_from_directories_and_files(tmp_path):
    first = write_run(tmp_path / "a" / "run", ENTRIES)
    second = write_run(tmp_path / "b" / "run", ENTRIES[:1])
    runs = read_runs([first, f"{second}/stats.json"])
    assert [run.label for run in runs] == ["a/run", "b/run"]
    assert [len(run.entries) for run in runs] == [3, 1]


def test_curves_have_gaps_where_values_are_not_finite():
    x, y = _Run("run", ENTRIES).curve("cost", "epoch")
    assert x == [1, 2, 3]
    assert y[0] == 3
    assert all(map(math.isnan, y[1:]))
    assert _Run("run", ENTRIES).curve("accuracy", "step") == ([20, 30], [0.5, 0.75])
    assert _Run("run", [*ENTRIES, {"epoch_num": 4, "accuracy": "lost"}]).curve("accuracy", "epoch") == (
        [2, 3],
        [0.5, 0.75],
    )
    assert _Run("run", ENTRIES).stats() == ["accuracy", "cost", "rate"]


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        (["/x/run"], ["run"]),
        (["/x/a", "/x/b"], ["a", "b"]),
        (["/x/a/run", "/x/b/run", "/x/c"], ["a/run", "b/run", "x/c"]),
        (["/run", "/x/run"], ["/run", "x/run"]),
        (["/x/run", "/x/run"], ["1 run", "2 run"]),
    ],
)
def test_labels_are_short_and_differ(directories, expected):
    assert short_labels(directories) == expected


def test_curves_have_gaps_where_values_are_too_large_to_draw(tmp_path):
    entries = [{"epoch_num": k, "global_step": k, "cost": (-1) ** k * 1.7e308, "error": 1e308} for k in range(4)]
    assert np.isnan(_Run("run", entries).curve("cost", "epoch")[1]).all()
    (tmp_path / "stats.json").write_text(json.dumps(entries))
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "curves.png")]) == 0


def test_more_statistics_than_a_picture_can_have_are_refused(tmp_path, capsys):
    entry = {"epoch_num": 1, "global_step": 1, **{f"s{k}": k for k in range(301)}}
    (tmp_path / "stats.json").write_text(json.dumps([entry]))
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "curves.png")]) == 2
    assert "the runs have 301 statistics: expected at most 300 to draw; use --stats" in capsys.readouterr().err


def test_all_statistics_that_change_are_chosen():
    other = _Run("other", [{"epoch_num": 1, "extra": 1.0}])
    queue = _Run("queue", [{"global_step": k, "Queue/size": k, "Beta": -k} for k in (1, 2)])
    assert _choose_stats([_Run("run", ENTRIES), other, queue], []) == ["accuracy", "Beta", "cost", "Queue/size"]
    assert _choose_stats([other], []) == ["extra"]
    assert _choose_stats([_Run("run", ENTRIES)], ["rate", "cost", "rate"]) == ["rate", "cost"]


def test_statistics_that_no_run_has_are_refused():
    runs = [_Run("run", ENTRIES)]
    with pytest.raises(ConfigError, match="no run has the statistic 'acuracy'; near names: accuracy"):
        _choose_stats(runs, ["acuracy"])
    with pytest.raises(ConfigError, match="'xyz'; there are: accuracy, cost, rate"):
        _choose_stats(runs, ["xyz"])
    with pytest.raises(ConfigError, match="the runs have no statistics to draw"):
        _choose_stats([_Run("run", [{"epoch_num": 1}])], [])


@pytest.mark.parametrize("entries", [None, []])
def test_directories_without_statistics_are_refused(tmp_path, entries):
    path = str(tmp_path / "run") if entries is None else write_run(tmp_path / "run", entries)
    with pytest.raises(ConfigError, match=r"run has no stats.json with statistics"):
        read_runs([path])


def test_damaged_files_are_told(tmp_path):
    write_run(tmp_path, {"a": 1})
    with pytest.raises(CallbackError, match="should hold a list of dictionaries"):
        read_runs([str(tmp_path)])
