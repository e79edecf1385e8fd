"""The README tells the truth: its commands exist, its links lead somewhere, its example trains."""

import importlib.util
import os
import re
import subprocess

import pytest

import tpack
from tests.helpers import preloaded
from tests.helpers.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)
COMMANDS = re.findall(r"^    (\./\S+)", README, re.M)
LINKS = re.findall(r"\]\(([^)#]+)\)", README)


def test_the_two_commands_are_there():
    assert COMMANDS == ["./scripts/demo", "./scripts/test"]


@pytest.mark.parametrize("command", ["./scripts/demo", "./scripts/test", "./scripts/make-venv", "./.ci/run"])
def test_command_can_be_run(command):
    assert os.access(ROOT / command, os.X_OK)
    checked = subprocess.run(["bash", "-n", ROOT / command], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_test_script_refuses_an_unknown_argument():
    done = subprocess.run([ROOT / "scripts" / "test", "--fast"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'--fast' is unknown" in done.stderr


def test_demo_runs_a_program_that_is_there():
    assert (ROOT / "examples" / "digits.py").is_file()


@pytest.mark.parametrize("link", LINKS)
def test_link_leads_somewhere(link):
    assert link.startswith("https://") or (ROOT / link).exists()


def test_reads_in_a_minute():
    assert len(README.split()) <= 650


def test_names_in_the_text_are_there():
    called = set(re.findall(r"`([A-Z]\w+)\(", README))
    assert "StrategyTrainer" in called
    assert called <= set(tpack.__all__)
    for name in set(re.findall(r"(?:-m |import |`)tpack\.(\w+)", README)):
        assert hasattr(tpack, name) or importlib.util.find_spec(f"tpack.{name}"), name
    assert callable(tpack.estimator.replicate_model_fn)


def test_figures_are_those_of_the_benchmarks():
    table = README[README.index("## Against others") : README.index("## Where to go on")]
    ratios = re.findall(r"\d+\.\d+", table)
    figures = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    compared = figures[figures.index("## tpack and others") : figures.index("## The step loop")]
    assert len(ratios) == 9
    assert [ratio for ratio in ratios if not re.search(rf"\b{re.escape(ratio)}\b", compared)] == []


def test_example_is_twenty_lines():
    assert len(EXAMPLES) == 1
    lines = [line for line in EXAMPLES[0].splitlines() if line.strip()]
    assert 15 <= len(lines) <= 22


def test_example_trains_and_validates(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLES[0], encoding="utf-8")
    done = preloaded.run(tmp_path / "example.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    statistics = (tmp_path / "train_log" / "softmax" / "stats.json").read_text(encoding="utf-8")
    errors = [float(value) for value in re.findall(r'"validation_error": *([\d.e-]+)', statistics)]
    assert len(errors) == 4
    # 0.141 with the seed of the example; other versions of TensorFlow may draw other first weights: 0.128 to 0.158.
    assert errors[-1] < 0.2
    assert "2 towers x 50 = 100 samples a step, 15 steps an epoch" in done.stdout + done.stderr
