"""One small run of a benchmark of each kind: its figures are complete; how large they are no test can know.

The others are run by `python -m tests.trials.benchmarks`.
"""

import json
import os

from tests.helpers import preloaded
from tests.helpers.source import ROOT

STEP_WAYS = 5
STEP_TRAININGS = ("steps_per_call=1", "steps_per_call=10", "check_cost=False")
REDUCE_BASELINES = {"memory floor", "ReductionToOneDevice", "HierarchicalCopyAllReduce", "MirroredStrategy"}


def run_benchmark(script, out, *arguments):
    # What the benchmarks start themselves finds tpack by this.
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = preloaded.run(ROOT / "benchmarks" / script, ["--out", out, *arguments], env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_step_loop_compares_five_ways(tmp_path):
    arguments = ("--steps", 60, "--rounds", 3, "--executors", "caller", "--steps-per-call", 1, 10)

    figures, printed = run_benchmark("step_loop.py", tmp_path / "out.json", *arguments)

    trainings = figures["trainings"]
    assert list(trainings) == [f"executor caller, {way}" for way in STEP_TRAININGS]
    ratios = trainings["executor caller, steps_per_call=1"]["ratios"]
    assert len(ratios) == STEP_WAYS
    assert ratios["tpack's loop"] == 1
    assert all(ratio > 0 for ratio in ratios.values())
    assert all(way in printed for way in ratios)
    assert figures["environment"]["cpus"] >= 1


def test_startup_finds_that_import_loads_no_tensorflow(tmp_path):
    figures, printed = run_benchmark("startup.py", tmp_path / "out.json", "--towers", "--import-rounds", 2)

    assert figures["import"]["ratio"] > 0
    assert "no TensorFlow loaded" in printed


def test_reduce_compares_with_tensorflow_and_with_the_memory(tmp_path):
    arguments = ("--towers", 2, "--steps", 1, "--rounds", 2, "--shapes", "300x10,10", "--candidates", "xring+packs")

    figures, printed = run_benchmark("reduce.py", tmp_path / "out.json", *arguments)

    rows = {row["name"]: row for row in figures["towers=2"]["rows"]}
    assert set(rows) == {"xring+packs", *REDUCE_BASELINES}
    assert [row["error"] for row in rows.values()] == [""] * len(rows)
    assert all(len(row["secs"]) == 2 for row in rows.values())
    assert figures["towers=2"]["chosen"] == "xring+packs"
    assert set(figures["towers=2"]["ratios"]) == {"best row", *REDUCE_BASELINES}
    assert "lower bounds: 0.0 MB a device, 1 hops" in printed


def test_layers_compute_what_plain_calls_compute_with_no_more_operations(tmp_path):
    arguments = ("--batch", 2, "--size", 32, "--rounds", 1, "--steps", 1, "--builds", 1)

    figures, printed = run_benchmark("layers.py", tmp_path / "out.json", *arguments)

    assert figures["ratios"].keys() == {"step", "build", "ops"}
    assert all(ratio > 0 for ratio in figures["ratios"].values())
    assert figures["ratios"]["ops"] <= 1
    assert [len(costs) for costs in figures["costs"].values()] == [2, 2]
    assert "operations by kind, where they differ" in printed
