"""``tpack plot``: from directories to a picture."""

import json
import sys

import pytest

from tpack.cli.main import main


@pytest.fixture
def runs(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        entries = [{"epoch_num": k, "global_step": 5 * k, "cost": 1 / k, "accuracy": k / 10} for k in range(1, 6)]
        (tmp_path / name / "stats.json").write_text(json.dumps(entries))
    return tmp_path


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
def test_a_picture_is_written(runs, capsys, suffix, start):
    out = runs / f"curves.{suffix}"
    assert main(["plot", str(runs / "a"), str(runs / "b"), "--out", str(out)]) == 0
    assert out.read_bytes().startswith(start)
    assert capsys.readouterr().out == f"{out}: 2 statistic(s) of 2 run(s)\n"


def test_one_statistic_over_steps(runs, capsys):
    arguments = ["plot", str(runs / "a"), "--stats", "cost", "--axis", "step", "--out", str(runs / "x.png")]
    assert main(arguments) == 0
    assert "1 statistic(s) of 1 run(s)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--out", "curves.gif"], "--out got 'curves.gif': expected a file that ends in one of .png, .svg, .pdf"),
        (["a", "--stats", "costs"], "no run has the statistic 'costs'; near names: cost"),
        (["c"], "c has no stats.json with statistics"),
    ],
)
def test_what_cannot_be_drawn_is_told(runs, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(runs)
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in runs.iterdir()) == ["a", "b"]


def test_schedules_are_drawn(tmp_path, capsys):
    out = tmp_path / "rate.svg"
    schedules = ["WarmUp(Cosine(0.1, 0, 85), 5)", "Step(0.1, {30: 0.01, 60: 0.001})", "Constant(0.05)"]
    assert main(["plot", *(part for each in schedules for part in ("--schedule", each)), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 3 schedule(s)\n"
    assert out.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "got neither of directories and --schedule: expected one"),
        (["a", "--schedule", "Constant(1)"], "got both"),
        (["--schedule", "exit()"], "there is no exit"),
    ],
)
def test_one_of_runs_and_schedules_is_drawn(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_page_is_written_without_matplotlib(runs, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["plot", "--html", "a", "b"]) == 0
    assert capsys.readouterr().out == "curves.html: 2 statistic(s) of 2 run(s)\n"
    assert (runs / "curves.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html"], "--html got no directories, or --schedule: expected directories of runs"),
        (
            ["--html", "--schedule", "Constant(1)"],
            "--html got no directories, or --schedule: expected directories of runs",
        ),
        (["--html", "a", "--out", "x.png"], "--out got 'x.png': expected a file that ends in .html"),
    ],
)
def test_a_page_that_cannot_be_is_told(runs, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(runs)
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err
