"""The example that newcomers run first: with each trainer, and once more to resume."""

import importlib
import json
import re

import numpy as np
import pytest

from tests.helpers import preloaded
from tests.helpers.source import ROOT
from tpack.errors import DataPointError

# Loaded already, which saves each run a second.
IMPORTS = "tests.helpers.example_imports"
TRAINERS = ("simple", "replicated", "parameter-server", "async", "strategy")


def run_digits(log_dir, *arguments):
    return preloaded.run(ROOT / "examples" / "digits.py", ["--logdir", log_dir, *arguments], module=IMPORTS)


def accuracy_printed(done):
    assert done.returncode == 0, done.stderr
    last_line = done.stdout.splitlines()[-1]
    return float(re.fullmatch(r"Validation accuracy: ([\d.]+)%", last_line)[1]) / 100


def epochs_in(log_dir):
    return [entry["epoch_num"] for entry in json.loads((log_dir / "stats.json").read_text(encoding="utf-8"))]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_digits_learns_and_writes_everything(trainer, tmp_path):
    log_dir = tmp_path / "digits"

    done = run_digits(log_dir, "--trainer", trainer, "--towers", 2, "--epochs", 2)

    # Two epochs reach 0.93 and more with every seed that was tried.
    assert accuracy_printed(done) > 0.85
    assert epochs_in(log_dir) == [1, 2]
    files = {path.name for path in log_dir.iterdir()}
    assert {"checkpoint", "model-44.index", "model-44.data-00000-of-00001", "log.log"} <= files
    assert {"max-validation_accuracy.index", "max-validation_accuracy.data-00000-of-00001"} <= files
    assert any(name.startswith("events.out.tfevents") for name in files)
    assert "conv1/W" in done.stderr
    assert "22/22" in done.stderr


def test_digits_resumes_at_the_next_epoch(tmp_path):
    run_digits(tmp_path, "--towers", 2, "--epochs", 2)

    resumed = run_digits(tmp_path, "--towers", 2, "--epochs", 3, "--resume")
    again = run_digits(tmp_path, "--towers", 2, "--epochs", 3, "--resume")

    assert accuracy_printed(resumed) > 0.85
    assert "Start Epoch 2" not in resumed.stderr
    # The third run has nothing left to do and tells what the second one reached.
    assert accuracy_printed(again) == accuracy_printed(resumed)
    assert "Start Epoch" not in again.stderr
    assert epochs_in(tmp_path) == [1, 2, 3]


def test_digits_refuses_a_batch_that_cannot_be_divided(tmp_path):
    done = run_digits(tmp_path / "digits", "--towers", 7)

    assert done.returncode == 2
    assert "a batch of 64 images cannot be divided among 7 towers" in done.stderr
    assert not (tmp_path / "digits").exists()


@pytest.mark.parametrize("name", ["digits", "digits_estimator"])
def test_labels_that_the_model_has_no_class_for_are_refused(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    script = importlib.import_module(name)
    monkeypatch.setattr(script, "load_digits", lambda return_X_y: (np.zeros([20, 64]), np.arange(20) % 11))
    load = script.load_data if name == "digits" else lambda: script.make_input_fns(4)
    with pytest.raises(DataPointError, match="labels from 0 to 10: expected 0 to 9"):
        load()
