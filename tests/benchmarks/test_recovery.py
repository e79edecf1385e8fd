"""The time to the next step is measured from the kill of a worker; the script that is started here is there at once."""

import importlib
import json
import sys

import pytest

from tests.helpers.source import ROOT

SCRIPT = """
import os, sys, time
folder, network = sys.argv[1:]
rank, attempt = int(os.environ["RANK"]), int(os.environ["TPACK_RESTART_COUNT"])
print("pid", os.getpid(), time.time(), flush=True)
if {fails} and attempt:
    sys.exit(3)
for step in range(1, 1000):
    # As if the first step of another run took long.
    print("step", step, time.time() + 1000 * attempt, flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """Return a function that runs the benchmark with the script above, and returns its figures."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    module = importlib.import_module("recovery")

    def run(fails=False):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(fails=fails))
        monkeypatch.setattr(module, "SCRIPT", str(script))
        monkeypatch.setattr(module, "WAYS", {"restarts": ["--restarts", "1"]})
        monkeypatch.setattr(
            sys, "argv", ["", "--networks", "tiny", "--rounds", "1", "--out", str(tmp_path / "out.json")]
        )
        module.main()
        return json.loads((tmp_path / "out.json").read_text())

    return run


def test_recovery_counts_from_the_kill_to_the_next_step(benchmark, capsys):
    figures = benchmark()
    assert 1000 < figures["tiny"]["restarts"]["median_secs"] < 1100
    assert "tiny: from the kill to the next step" in capsys.readouterr().out


def test_a_job_that_ends_is_no_figure(benchmark):
    with pytest.raises(SystemExit, match="restarts: the job ended before its next step"):
        benchmark(fails=True)
