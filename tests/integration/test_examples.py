"""Every example runs: a few steps of each, in a process of its own that has loaded what it imports.

What the larger ones learn is tested in a file of each; here they only have to run to their end and tell their figure,
which the table of their README names.
"""

import ast
import json
import os
import re

import pytest

from tests.helpers import preloaded
from tests.helpers.examples import FOLDER
from tests.helpers.source import ROOT, assert_none
from tests.meta.test_house import code_lines

MOST_LINES = 150
README = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = {row.group(1): row.group(0) for row in re.finditer(r"^\| \[`(\w+)\.py`\].*$", README, re.MULTILINE)}
# Others import them.
PARTS = {"shapes", "gan_trainer"}
# Those that are no training of epochs have steps only.
ARGUMENTS = {
    "digits": ["--epochs", 1, "--towers", 2],
    "digits_estimator": ["--steps", 2],
    "estimator_wide_deep": ["--steps", 2],
    "export_and_serve": ["--steps", 2],
    "own_builder": ["--epochs", 1],
    "own_reducer": ["--epochs", 1],
    "plain_loop": ["--steps", 2],
    "reduce_by_hand": ["--steps", 2],
    "siamese": ["embed", "--epochs", 1, "--steps", 2],
    "strategy_digits": ["--steps", 2],
}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - PARTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs_and_tells_its_figure(name, tmp_path):
    arguments = ARGUMENTS.get(name, ["--epochs", 1, "--steps", 2])
    done = preloaded.run(FOLDER / f"{name}.py", arguments, cwd=tmp_path, module="tests.helpers.example_imports")
    assert done.returncode == 0, done.stderr
    figure, _, value = done.stdout.splitlines()[-1].rpartition(": ")
    assert re.fullmatch(r"-?[\d.]+%?", value), done.stdout
    assert figure.rpartition(", ")[2].lower() in ROWS[name].lower()


def notebook_cells():
    content = json.loads((FOLDER / "notebook.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs_and_tells_its_figure(tmp_path):
    (tmp_path / "notebook.py").write_text("\n".join(notebook_cells()), encoding="utf-8")
    done = preloaded.run(
        tmp_path / "notebook.py",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        module="tests.helpers.example_imports",
    )
    assert done.returncode == 0, done.stderr
    assert float(re.fullmatch(r"Validation accuracy: ([\d.]+)%", done.stdout.splitlines()[-1])[1]) > 80
    assert "[`notebook.ipynb`]" in README
    assert code_lines("\n".join(notebook_cells())) <= MOST_LINES


def test_they_are_short_and_in_the_table():
    long = {path.name: code_lines(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.py")}
    assert_none(f"{name} has {lines} lines of code" for name, lines in long.items() if lines > MOST_LINES)
    assert set(ROWS) == set(SCRIPTS)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_it_says_how_it_is_run(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if path.stem not in PARTS:
        assert f"python examples/{path.name}" in docstring
