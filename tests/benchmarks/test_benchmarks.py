"""The benchmarks run, and their figures are complete; how large the figures are no test can know."""

import json
import os

from tests.helpers import preloaded
from tests.helpers.source import ROOT

STEP_WAYS = 5
STEP_TRAININGS = ("steps_per_call=1", "steps_per_call=10", "check_cost=False")
PHASES = 7
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


def test_startup_measures_each_phase_of_both_ways(tmp_path):
    arguments = ("--models", "lstm", "--towers", 2, "--ways", "both", "by hand", "--import-rounds", 1)

    figures, _ = run_benchmark("startup.py", tmp_path / "out.json", *arguments)

    two_towers = figures["lstm, number of towers: 2"]
    for way in ("both", "by hand"):
        assert two_towers["ratios"][way] > 0
        assert two_towers["cpu_ratios"][way] > 0
        assert two_towers["operations"][way] > 0
        phases = {name: phase["median_secs"] for name, phase in two_towers[way].items()}
        assert phases.pop("processor's time of it") > 0
        total = phases.pop("launch to first step")
        assert len(phases) == PHASES
        second_step = phases.pop("second step")
        assert 0 < second_step < total
        assert abs(total - sum(phases.values())) < 1e-6


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


def test_strategies_compares_with_tensorflow(tmp_path):
    arguments = ("--networks", "digits", "--towers", 2, "--batch", 2, "--steps", 2, "--rounds", 2)
    rows = ["strategy", "loop_one_device", "fit"]

    figures, printed = run_benchmark("strategies.py", tmp_path / "out.json", *arguments, "--rows", *rows)

    measured = figures["digits, towers=2"]
    assert measured["errors"] == {}
    assert list(measured["rows"]) == list(measured["ratios"]) == list(measured["build_secs"]) == rows
    assert measured["ratios"]["strategy"] == 1
    assert min(*measured["ratios"].values(), *measured["build_secs"].values()) > 0
    assert "steps a second" in printed


def test_grappler_measures_each_way_of_rewriting(tmp_path):
    arguments = ("--models", "perceptron", "--towers", 2, "--rounds", 1, "--steps", 1)

    figures, printed = run_benchmark("grappler.py", tmp_path / "out.json", *arguments)

    two_towers = figures["perceptron, number of towers: 2"]
    assert list(two_towers["ratios"]) == list(two_towers["prepared_secs"]) == list(two_towers["steps"])
    assert two_towers["ratios"]["none"] == 1
    assert all(ratio > 0 for ratio in two_towers["ratios"].values())
    assert {"chosen by tpack", "all", "arithmetic"} < set(two_towers["ratios"])
    assert "s to prepare" in printed


def test_compile_compares_steps_of_fixed_and_changing_shapes(tmp_path):
    arguments = ("--models", "elementwise", "--rounds", 2, "--steps", 1)

    figures, printed = run_benchmark("compile.py", tmp_path / "out.json", *arguments)

    model = figures["models"]["elementwise"]
    assert model["fixed"]["ratio"] > 0
    assert model["changing"]["ratio"] > 0
    assert all(model[key][way] > 0 for key in ("first_secs", "shapes_secs") for way in ("as it is", "compiled"))
    assert "elementwise" in printed
