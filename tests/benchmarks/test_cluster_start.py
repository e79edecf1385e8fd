"""The start of jobs is measured to the last of the first steps; the script that is started here is there at once."""

import importlib
import json
import sys

import pytest

from tests.helpers.source import ROOT

SCRIPT = """
import os, pathlib, sys, time
folder, mode = sys.argv[1:]
rank = int(os.environ.get("RANK", 0))
if mode == {failing!r} and rank == 1:
    sys.exit(3)
pathlib.Path(folder, str(os.getpid())).write_text(repr(time.time() + (1000 if mode == "job" and rank == 1 else 0)))
"""


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """Return a function that runs the benchmark with the script above, and returns its figures."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    module = importlib.import_module("cluster_start")

    def run(failing=""):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(failing=failing))
        monkeypatch.setattr(module, "SCRIPT", str(script))
        monkeypatch.setattr(sys, "argv", ["", "--workers", "2", "--rounds", "1", "--out", str(tmp_path / "out.json")])
        module.main()
        return json.loads((tmp_path / "out.json").read_text())

    return run


def test_start_counts_until_the_last_process_of_a_job_has_made_its_step(benchmark, capsys):
    figures = benchmark()

    assert figures["ratios"]["one process"] == 1
    assert figures["tpack launch"]["median_secs"] > 1000 > figures["processes side by side"]["median_secs"] > 0
    assert figures["tpack launch, forked"]["median_secs"] > 1000
    assert figures["over_side_by_side"] > 1
    assert "tpack launch over processes side by side" in capsys.readouterr().out


def test_start_of_a_job_that_fails_is_no_figure(benchmark):
    with pytest.raises(SystemExit, match=r"tpack launch: codes \[11\]"):
        benchmark(failing="job")
