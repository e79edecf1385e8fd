"""Run training programs that others wrote on tpack, from local folders, after ``tpack migrate``.

    python -m tests.trials.outside_code FOLDER [FOLDER ...] [--only TEXT] [--out DIRECTORY] [--packages DIRECTORY]

A folder is a checkout of a public repository whose name ends with the repository's: ``carpedm20+DCGAN-tensorflow``, not
``dcgan``. The recipes in the modules of `RECIPES` name the program, the made-up data and the number of steps.

Each program runs in a copy of the folder, at most twice. ``migrate``: ``tpack migrate`` and the edits that make it
small. ``forced``, if that did not train: besides, the other edits of the recipe, `tests.trials.outside_rewriting` for
Python 2, `tests.trials.outside_stand_ins` for names that numpy, scipy and Python removed, and oneDNN's kernels, since
those of older CPUs cannot do what a GPU does. Packages that are missing here are stand-ins in both. Where the machine
allows it, the program has no network.

Rows are added to ``report.json`` in ``--out`` after each program, in place of earlier ones of the same name. No code of
these repositories is part of tpack.
"""

import argparse
import dataclasses
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
    outside_recipes_second,
    outside_recipes_tensorpack,
)
from tests.trials.outside_recipe import Recipe
from tests.trials.outside_rewriting import rewrite_folder, run_2to3

RECIPES = (
    *outside_recipes_images.RECIPES,
    *outside_recipes_language.RECIPES,
    *outside_recipes_other.RECIPES,
    *outside_recipes_tensorpack.RECIPES,
    *outside_recipes_second.RECIPES,
)
ROOT = Path(__file__).resolve().parents[2]
WITHOUT_NETWORK = ["unshare", "--map-root-user", "--net"]
IGNORED = shutil.ignore_patterns(".git", "*.ipynb", "*.gif", "*.mp4", "*.ckpt*", "*.pdf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", help="a part of the names of the recipes to run")
    parser.add_argument("--out", type=Path, help="directory of the copies, the logs and report.json")
    parser.add_argument("--packages", default="", help="folders with packages that the programs need, for PYTHONPATH")
    parser.add_argument("--patience", type=float, default=1, help="how many times their time programs get")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="outside_code_"))
    rows = []
    for folder in options.folders:
        for recipe in recipes_of(folder):
            if options.only in recipe.name:
                recipe = dataclasses.replace(recipe, seconds=recipe.seconds * options.patience)
                rows.append(run_recipe(recipe, folder, out, options.packages))
                add_to_report(out / "report.json", rows[-1])
                print(shown(rows[-1]), flush=True)
    for way in ("migrate", "forced"):
        print(f"{way}: {sum(has_trained(row, way) for row in rows)} of {len(rows)} made the wanted steps; see {out}")


def recipes_of(folder: Path) -> list[Recipe]:
    """Return the recipes of the repository that lies in `folder`."""
    name = folder.resolve().name.replace("+", "/")
    return [
        recipe
        for recipe in RECIPES
        if f"/{name}".endswith(f"/{recipe.repository.split('/')[-1]}")
        and ("/" not in name or name == recipe.repository)
    ]


def run_recipe(recipe: Recipe, folder: Path, out: Path, packages: str) -> dict[str, Any]:
    """Run one recipe of `folder`, and return a row of the report."""
    row: dict[str, Any] = {"name": recipe.name, "trains": recipe.trains, "wanted": recipe.steps}
    row["commit"] = commit_of(folder)
    if recipe.commit and not row["commit"].startswith(recipe.commit):
        print(f"{recipe.name}: the folder has commit {row['commit'] or '?'}, the last run was of {recipe.commit}")
    base = migrated_copy(folder, out / "migrated")
    row["summary"] = last_line(base / "tpack_migrate.txt")
    for way in ("migrate", "forced"):
        if way == "migrate" or not has_trained(row, "migrate"):
            row[way] = run_way(recipe, base, out / way / re.sub("[/:]", "+", recipe.name), packages)
    return row


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, or nothing for a folder without one."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def migrated_copy(folder: Path, parent: Path) -> Path:
    """Return a copy of `folder` after ``tpack migrate``, made once."""
    copy = parent / folder.resolve().name
    if not copy.exists():
        shutil.copytree(folder, copy, ignore=IGNORED)
        migrate(copy)
    return copy


def migrate(copy: Path) -> None:
    """Run ``tpack migrate`` on a folder, and keep its output there."""
    command = [sys.executable, "-m", "tpack", "migrate", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    (copy / "tpack_migrate.txt").write_text(done.stderr + done.stdout)


def run_way(recipe: Recipe, base: Path, work: Path, packages: str) -> dict[str, Any]:
    """Run a recipe in a copy of the migrated `base`, and return the outcome."""
    shutil.rmtree(work, ignore_errors=True)
    copy = work / "code"
    shutil.copytree(base, copy)
    changes: Counter[str] = Counter()
    forced = work.parent.name == "forced"
    began = time.monotonic()
    if forced:
        changes += run_2to3(copy, recipe.python_2) + rewrite_folder(copy)
        if changes:
            migrate(copy)
    for edit in recipe.edits:
        if forced or edit.why == "size":
            changes[edit.why] += edit.apply(copy)
    for make in recipe.data:
        make(copy)
    for command in recipe.before:
        run_child(recipe, command, work, packages)
    outcome = run_child(recipe, recipe.command, work, packages)
    return {**outcome, "secs": round(time.monotonic() - began), "changes": changes}


def has_trained(row: dict[str, Any], way: str) -> bool:
    """Return whether a program made its steps in a way, or in the one before."""
    return any(name in row and row[name]["steps"] >= row["wanted"] for name in {"migrate", way})


def add_to_report(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a report, in place of that of the same name."""
    rows = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*(each for each in rows if each["name"] != row["name"]), row], indent=1))


def run_child(recipe: Recipe, program: str, work: Path, packages: str) -> dict[str, Any]:
    """Run the program of a recipe in its own process, and return its outcome."""
    copy = work / "code"
    result = work / "result.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.trials.outside_child"]
    command += [work.parent.name, str(result), str(3 * recipe.steps), str(recipe.seconds), str(copy / recipe.folder)]
    command += program.split()
    extra = [str(copy / each) for each in recipe.python_path]
    path = os.pathsep.join([*extra, *filter(None, [packages]), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2", "MPLBACKEND": "agg"}
    environment["TPACK_DATASET"] = str(copy / "datasets")
    if work.parent.name == "forced":
        # Its kernels convolve pictures with channels first, as GPUs do; TensorFlow has them on by itself on some CPUs.
        environment["TF_ENABLE_ONEDNN_OPTS"] = "1"
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
        except subprocess.TimeoutExpired:
            print(f"{recipe.name}: ended after {recipe.seconds + 60:.0f} s")
        finally:
            kill_group(process.pid)
            process.wait()
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
    cells = [row["name"], row["trains"], *(shown_outcome(row, way) for way in ("migrate", "forced"))]
    return f"| {' | '.join(cells)} |"


def shown_outcome(row: dict[str, Any], way: str) -> str:
    """Return a cell of the table: the steps, how long they took, and the error that ended them."""
    if way not in row:
        return "-"
    outcome = row[way]
    changes = ", ".join(kind for kind in outcome["changes"] if kind != "size")
    text = f"{outcome['steps']} steps in {outcome['secs']} s" + (f" ({changes})" if changes else "")
    if outcome["not_finite"]:
        text += f", {outcome['not_finite']} not finite"
    error = re.sub(r"\s+", " ", f"{outcome['ended']} {outcome['error']}")[:200].replace("|", "/")
    return text if has_trained(row, way) else f"{text}: {error}"


if __name__ == "__main__":
    main()
