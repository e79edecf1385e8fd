"""Run training programs that others wrote on tpack, from local folders, and tell how many steps they made.

    python -m tests.trials.outside_code FOLDER [FOLDER ...] [--only TEXT] [--out DIRECTORY] [--packages DIRECTORY]

A folder is a checkout of a public repository, and its name ends on the repository's: ``dcgan`` will not do,
``carpedm20+DCGAN-tensorflow`` will. What is run of it, on which made-up data and for how many steps, is said by its
recipes, in the modules of `RECIPES`. Each program runs in a copy of the folder, of which
`tests.trials.outside_rewriting` changes the import lines of TensorFlow; those of tensorpack stay, and give tpack. What
numpy and Python themselves took away is put back by `tests.trials.outside_stand_ins`. Where the machine lets it, the
program has no network.

Nothing of that code is part of tpack: this only names it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.trials import (
    outside_recipes_images,
    outside_recipes_language,
    outside_recipes_other,
    outside_recipes_tensorpack,
)
from tests.trials.outside_recipe import Recipe
from tests.trials.outside_rewriting import rewrite_folder

RECIPES = (
    *outside_recipes_images.RECIPES,
    *outside_recipes_language.RECIPES,
    *outside_recipes_other.RECIPES,
    *outside_recipes_tensorpack.RECIPES,
)
ROOT = Path(__file__).resolve().parents[2]
WITHOUT_NETWORK = ["unshare", "--map-root-user", "--net"]
IGNORED = shutil.ignore_patterns(".git", "*.ipynb", "*.gif", "*.mp4", "*.ckpt*", "*.pdf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", help="a part of the names of the recipes to run")
    parser.add_argument("--out", type=Path, help="where to leave the copies, the logs and report.json")
    parser.add_argument("--packages", default="", help="folders with packages that the programs need, for PYTHONPATH")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="outside_code_"))
    rows = []
    for folder in options.folders:
        for recipe in recipes_of(folder):
            if options.only in recipe.name:
                rows.append(run_recipe(recipe, folder, out / re.sub("[/:]", "+", recipe.name), options.packages))
                print(shown(rows[-1]), flush=True)
    (out / "report.json").write_text(json.dumps(rows, indent=1))
    made = sum(row["steps"] >= row["wanted"] for row in rows)
    print(f"\n{made} of {len(rows)} programs made the steps that were wanted; logs and copies are in {out}")


def recipes_of(folder: Path) -> list[Recipe]:
    """Return the recipes of the repository that lies in `folder`."""
    name = folder.resolve().name.replace("+", "/")
    return [
        recipe
        for recipe in RECIPES
        if f"/{name}".endswith(f"/{recipe.repository.split('/')[-1]}")
        and ("/" not in name or name == recipe.repository)
    ]


def run_recipe(recipe: Recipe, folder: Path, work: Path, packages: str) -> dict[str, Any]:
    """Run one recipe in a copy of `folder` under `work`, and return a row of the report."""
    shutil.rmtree(work, ignore_errors=True)
    copy = work / "code"
    shutil.copytree(folder, copy, ignore=IGNORED)
    changes = rewrite_folder(copy)
    for edit in recipe.edits:
        changes[edit.why] += edit.apply(copy)
    for make in recipe.data:
        make(copy)
    began = time.monotonic()
    for command in recipe.before:
        run_child(recipe, command, copy, work, packages)
    outcome = run_child(recipe, recipe.command, copy, work, packages)
    row = {"name": recipe.name, "trains": recipe.trains, "command": recipe.command, "wanted": recipe.steps}
    return {**row, **outcome, "secs": round(time.monotonic() - began), "changes": changes}


def run_child(recipe: Recipe, program: str, copy: Path, work: Path, packages: str) -> dict[str, Any]:
    """Run the program of a recipe in a process of its own, and return what it said of itself."""
    result = work / "result.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.trials.outside_child"]
    command += [str(result), str(3 * recipe.steps), str(recipe.seconds), str(copy / recipe.folder), *program.split()]
    extra = [str(copy / each) for each in recipe.python_path]
    path = os.pathsep.join([*extra, *filter(None, [packages]), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2", "MPLBACKEND": "agg"}
    environment["TPACK_DATASET"] = str(copy / "datasets")
    with open(work / "log.txt", "wb") as log:
        process = subprocess.Popen(
            [*without_network(), *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(recipe.seconds + 60)
        finally:
            kill_group(process.pid)
    if result.exists():
        return dict(json.loads(result.read_text()))
    return {
        "steps": 0,
        "not_finite": 0,
        "ended": f"with status {process.returncode} before the first step",
        "error": last_line(work / "log.txt"),
        "trace": "",
    }


def without_network() -> list[str]:
    """Return what to put before a command so that it has no network, or nothing where that is not allowed."""
    allowed = shutil.which("unshare") and subprocess.run([*WITHOUT_NETWORK, "true"], check=False).returncode == 0
    return WITHOUT_NETWORK if allowed else []


def kill_group(group: int) -> None:
    """End what a program started and left."""
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        return


def last_line(path: Path) -> str:
    """Return the last line of a log that says anything."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if re.search(r"\w", line)]
    return lines[-1] if lines else ""


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line of a Markdown table."""
    changes = ", ".join(f"{kind} {number}" for kind, number in Counter(row["changes"]).items())
    error = "" if row["steps"] >= row["wanted"] else re.sub(r"\s+", " ", row["error"])[:160].replace("|", "/")
    steps = f"{row['steps']} of {row['wanted']}" + (f", {row['not_finite']} not finite" if row["not_finite"] else "")
    cells = [row["name"], row["trains"], f"`{row['command']}`", steps, row["ended"], f"{row['secs']} s", changes, error]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
