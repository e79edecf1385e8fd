"""The benchmark of layers of TensorFlow 1 runs; the two networks of a row compute the same, by no more operations."""

import json

from tests.helpers import preloaded
from tests.helpers.source import ROOT

NETWORK = "GRUCell, dynamic_rnn"


def test_a_cell_in_a_loop_has_no_more_operations_than_the_original_one(tmp_path):
    out = tmp_path / "out.json"
    arguments = ("--out", out, "--only", NETWORK, "--rounds", 1, "--steps", 1, "--builds", 1)

    done = preloaded.run(ROOT / "benchmarks" / "layers_tf1.py", arguments)

    assert done.returncode == 0, done.stderr
    assert NETWORK in done.stdout
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert list(figures["networks"]) == [NETWORK]
    ratios = figures["networks"][NETWORK]["ratios"]
    assert ratios.keys() == {"step", "build", "ops"}
    assert ratios["ops"] <= 1
