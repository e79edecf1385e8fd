"""Small runs of the benchmarks that the suite leaves out: they run, and their figures are complete.

    python -m tests.trials.benchmarks [NAME...]

They start many processes, and fail where other programs take all of the machine. The suite has one run of each kind.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from tests.helpers import preloaded
from tests.helpers.source import ROOT

PHASES = 7


def run_benchmark(script, out, *arguments):
    """Return the figures of a benchmark and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = preloaded.run(ROOT / "benchmarks" / script, ["--out", out, *arguments], env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def startup_measures_each_phase_of_both_ways(folder):
    arguments = ("--models", "lstm", "--towers", 2, "--ways", "both", "by hand", "--import-rounds", 1)

    figures, _ = run_benchmark("startup.py", folder / "out.json", *arguments)

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


def strategies_compares_with_tensorflow(folder):
    arguments = ("--networks", "digits", "--towers", 2, "--batch", 2, "--steps", 2, "--rounds", 2)
    rows = ["strategy", "loop_one_device", "fit"]

    figures, printed = run_benchmark("strategies.py", folder / "out.json", *arguments, "--rows", *rows)

    measured = figures["digits, towers=2"]
    assert measured["errors"] == {}
    assert list(measured["rows"]) == list(measured["ratios"]) == list(measured["build_secs"]) == rows
    assert measured["ratios"]["strategy"] == 1
    assert min(*measured["ratios"].values(), *measured["build_secs"].values()) > 0
    assert "steps a second" in printed


def grappler_measures_each_way_of_rewriting(folder):
    arguments = ("--models", "perceptron", "--towers", 2, "--rounds", 1, "--steps", 1)

    figures, printed = run_benchmark("grappler.py", folder / "out.json", *arguments)

    two_towers = figures["perceptron, number of towers: 2"]
    assert list(two_towers["ratios"]) == list(two_towers["prepared_secs"]) == list(two_towers["steps"])
    assert two_towers["ratios"]["none"] == 1
    assert all(ratio > 0 for ratio in two_towers["ratios"].values())
    assert {"chosen by tpack", "all", "arithmetic"} < set(two_towers["ratios"])
    assert "s to prepare" in printed


def compile_compares_steps_of_fixed_and_changing_shapes(folder):
    arguments = ("--models", "elementwise", "--rounds", 2, "--steps", 1)

    figures, printed = run_benchmark("compile.py", folder / "out.json", *arguments)

    model = figures["models"]["elementwise"]
    assert model["fixed"]["ratio"] > 0
    assert model["changing"]["ratio"] > 0
    assert all(model[key][way] > 0 for key in ("first_secs", "shapes_secs") for way in ("as it is", "compiled"))
    assert "elementwise" in printed


def cluster_compares_several_processes_with_one_and_with_tensorflow(folder):
    rows = ["replicated", "ps", "alone", "tensorflow"]
    arguments = ("--networks", "embedding", "--shrink", 1000, "--steps", 3, "--rounds", 2, "--rows", *rows)

    figures, printed = run_benchmark("cluster.py", folder / "out.json", *arguments)

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


def dataflow_measures_every_way_into_the_graph(folder):
    figures, printed = run_benchmark(
        "dataflow.py", folder / "out.json", "--part", "graph", "--steps", "3", "--rounds", "1"
    )
    figures = figures["graph"]
    for kind in ("64x224x224x3 uint8", "8 floats"):
        rates, ratios = figures[kind]["batches_per_sec"], figures[kind]["ratios"]
        assert len(rates) == len(ratios) + 1 == 6
        assert all(rate > 0 for rate in [*rates.values(), *ratios.values()])
        assert all(name in printed for name in rates)


def dataflow_measures_every_way_of_images(folder):
    figures, printed = run_benchmark(
        "dataflow.py", folder / "out.json", "--part", "images", "--images", "128", "--rounds", "1", "--workers", "1"
    )
    figures = figures["images"]
    assert len(figures["images_per_sec"]) >= 4
    assert all(rate > 0 for rate in figures["images_per_sec"].values())
    assert len(figures["ratios"]) >= 2
    assert all(name in printed for name in figures["ratios"])


RUNS = [
    startup_measures_each_phase_of_both_ways,
    strategies_compares_with_tensorflow,
    grappler_measures_each_way_of_rewriting,
    compile_compares_steps_of_fixed_and_changing_shapes,
    cluster_compares_several_processes_with_one_and_with_tensorflow,
    dataflow_measures_every_way_into_the_graph,
    dataflow_measures_every_way_of_images,
]


def main(names):
    """Run those of `RUNS` that are named, or all."""
    for run in RUNS:
        if not names or run.__name__ in names:
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder))
            print(f"{run.__name__}: complete")


if __name__ == "__main__":
    main(sys.argv[1:])
