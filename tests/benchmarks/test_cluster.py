"""The benchmark of the exchange of several processes runs, and its figures are complete."""

import json
import os

from tests.helpers import preloaded
from tests.helpers.source import ROOT


def run_benchmark(script, out, *arguments):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = preloaded.run(ROOT / "benchmarks" / script, ["--out", out, *arguments], env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_cluster_exchange_finds_the_mean_in_each_way_and_counts_what_is_sent(tmp_path):
    arguments = ("--megabytes", 0.1, "--arrays", 2, "--workers", 2, "--steps", 2, "--rounds", 2)

    figures, printed = run_benchmark("cluster_exchange.py", tmp_path / "out.json", *arguments)

    measured = figures["0.1 MB, arrays=2, workers=2"]
    assert (
        list(measured["ratios"])
        == list(measured["ways"])
        == ["nothing", "queues", "hvd.allreduce", "one graph", "collective ring"]
    )
    assert measured["ratios"]["queues"] == 1
    assert min(measured["ratios"].values()) > 0
    # Each of two sends half of its numbers and half of the sums.
    assert all(sent > 1e5 for way, sent in measured["sent_bytes"].items() if way != "nothing")
    assert "PyTorch gloo is left out" in printed
