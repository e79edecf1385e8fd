"""The benchmark of the data side runs, and its figures are complete."""

import json
import os
import subprocess
import sys

from tests.helpers.source import ROOT

TPACK, QUEUE, READ = "tpack", "pickle, multiprocessing.Queue", ", read"


def test_tiny_run_measures_transport_and_tiny_points(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "dataflow.py", "--out", tmp_path / "out.json"]
    command += ["--part", "transport", "tiny", "--rounds", "1", "--workers", "1", "--batches", "2", "--points", "100"]
    command += ["--ways", TPACK, QUEUE]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    transport, tiny = figures["transport"]["workers=1"], figures["tiny"]["workers=1"]
    read = {f"memcpy{READ}", TPACK + READ, QUEUE + READ}
    assert set(transport["gb_per_sec"]) == {"memcpy", TPACK, QUEUE, *read}
    assert transport["of_memcpy"]["memcpy"] == transport["of_memcpy_read"][f"memcpy{READ}"] == 1
    assert set(transport["of_memcpy_read"]) == read
    assert all(rate > 0 for rate in [*transport["gb_per_sec"].values(), *tiny["points_per_sec"].values()])
    assert set(tiny["tpack_over"]) == {QUEUE}
    assert "batches of images, workers: 1" in done.stdout
    assert "points of 8 floats, workers: 1" in done.stdout
