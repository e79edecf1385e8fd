"""The benchmarks of several processes run, and their figures are complete."""

import json
import os

from tests.helpers import preloaded
from tests.helpers.source import ROOT


def run_benchmark(script, out, *arguments):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = preloaded.run(ROOT / "benchmarks" / script, ["--out", out, *arguments], env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_cluster_compares_several_processes_with_one_and_with_tensorflow(tmp_path):
    rows = ["replicated", "ps", "alone", "tensorflow"]
    arguments = ("--networks", "embedding", "--shrink", 1000, "--steps", 3, "--rounds", 2, "--rows", *rows)

    figures, printed = run_benchmark("cluster.py", tmp_path / "out.json", *arguments)

    measured = figures["embedding"]
    assert measured["errors"] == {}
    assert list(measured["ratios"]) == rows
    assert measured["ratios"]["replicated"] == 1
    assert set(measured["over_alone"]) == {"replicated", "ps", "tensorflow"}
    assert min(*measured["ratios"].values(), *measured["over_alone"].values()) > 0
    # The rows of both batches, 256 x 16 of 16 floats with their numbers, go to the other process in whole. Those of the
    # first of three steps may be on their way before anything is counted.
    assert measured["sent_bytes"]["replicated"] > 2 / 3 * 256 * 16 * (16 * 4 + 4)
    assert "PyTorch is left out" in printed


def test_cluster_exchange_finds_the_mean_in_each_way_and_counts_what_is_sent(tmp_path):
    arguments = ("--megabytes", 0.1, "--arrays", 2, "--workers", 2, "--steps", 2, "--rounds", 2)

    figures, printed = run_benchmark("cluster_exchange.py", tmp_path / "out.json", *arguments)

    measured = figures["0.1 MB, arrays=2, workers=2"]
    assert list(measured["ratios"]) == list(measured["ways"]) == ["nothing", "queues", "one graph", "collective ring"]
    assert measured["ratios"]["queues"] == 1
    assert min(measured["ratios"].values()) > 0
    # Each of two sends half of its numbers and half of the sums.
    assert all(sent > 1e5 for way, sent in measured["sent_bytes"].items() if way != "nothing")
    assert "PyTorch gloo is left out" in printed
