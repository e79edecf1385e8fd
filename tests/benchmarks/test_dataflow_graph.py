"""The benchmark of the ways into the graph runs, and its figures are complete."""

import json
import os
import subprocess
import sys

from tests.helpers.source import ROOT


def test_tiny_run_measures_every_way(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "dataflow.py", "--out", tmp_path / "out.json"]
    command += ["--part", "graph", "--steps", "3", "--rounds", "1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["graph"]
    for kind in ("64x224x224x3 uint8", "8 floats"):
        rates, ratios = figures[kind]["batches_per_sec"], figures[kind]["ratios"]
        assert len(rates) == len(ratios) + 1 == 6
        assert all(rate > 0 for rate in [*rates.values(), *ratios.values()])
        assert all(name in done.stdout for name in rates)
