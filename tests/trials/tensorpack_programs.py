"""Run the programs of tensorpack's ``examples`` after ``tpack migrate`` alone, one at a time.

    python -m tests.trials.tensorpack_programs CHECKOUT [--only TEXT] [--out DIRECTORY] [--patience FACTOR]

CHECKOUT is a checkout of tensorpack/tensorpack; 0.11 of 2023 is the last one. Its ``examples`` are copied and migrated
once. Each case of `tests.trials.tensorpack_cases` then runs in a copy of its program's folder, in a process of its own,
on made-up data; `tests.trials.tensorpack_machine` shortens trainings to two epochs of two steps. A case passes if the
program ends with status 0 and its log has the steps that were wanted. Programs that stop with tensorpack itself are
run too, and counted apart. The result is a table in Markdown, and
``report.json``; cases that are in there already are left out, so that a trial can go on (``--again`` runs them). On a
busy machine ``--patience 4`` gives each program four times its time.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.trials.outside_code import ROOT, kill_group, last_line
from tests.trials.tensorpack_cases import BROKEN, CASES, SHARED, Case
from tests.trials.tensorpack_data import STAND_INS

STEPS = re.compile(r"\(global step (\d+)\) finished")
STARTUP = "from tests.trials import tensorpack_machine\n\ntensorpack_machine.install()\n"


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", help="a regular expression, of names of cases to run")
    parser.add_argument("--out", type=Path, help="the directory for copies, data, logs and report.json")
    parser.add_argument("--again", action="store_true", help="run cases again that the report has")
    parser.add_argument("--patience", default=1.0, type=float, help="multiplies the time that a program may take")
    options = parser.parse_args()
    out = (options.out or Path(tempfile.mkdtemp(prefix="tensorpack_programs_"))).resolve()
    migrate(options.checkout / "examples", out)
    report = out / "report.json"
    rows: dict[str, dict[str, Any]] = json.loads(report.read_text()) if report.exists() else {}
    for case in (*CASES, *BROKEN):
        if re.search(options.only, case.name) and (options.again or case.name not in rows):
            rows[case.name] = run_case(replace(case, seconds=case.seconds * options.patience), out)
            report.write_text(json.dumps(rows, indent=1))
            print(shown(case, rows[case.name]), flush=True)
    done = [rows[case.name] for case in CASES if case.name in rows]
    broken = [rows[case.name] for case in BROKEN if case.name in rows]
    print(f"\n{sum(row['passed'] for row in done)} of {len(done)} cases passed, of {len(CASES)}; logs are in {out}")
    print(f"{sum(row['passed'] for row in broken)} of {len(broken)} passed that stop with tensorpack itself")


def migrate(examples: Path, out: Path) -> None:
    """Copy the programs and migrate the copy, and write the stand-ins, once for a directory."""
    target = out / "examples"
    if target.exists():
        return
    shutil.copytree(examples, target)
    command = [sys.executable, "-m", "tpack", "migrate", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (out / "migrate.txt").write_text(done.stdout + done.stderr)
    print(f"tpack migrate: {(done.stdout.splitlines() or ['nothing'])[-1]}")
    for path, content in {**STAND_INS, "sitecustomize.py": STARTUP}.items():
        place = out / "stand_ins" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)


def run_case(case: Case, out: Path) -> dict[str, Any]:
    """Run one case in a copy of its folder, and return its row of the report."""
    code = out / "runs" / re.sub(r"\W+", "-", case.name)
    shutil.rmtree(code, ignore_errors=True)
    source = out / "examples" / case.folder
    if source.is_dir():
        shutil.copytree(source, code)
    else:
        code.mkdir(parents=True)
        shutil.copy(source, code)
    for name in case.shared:
        marker = out / f"{name}.made"
        if not marker.exists():
            SHARED[name](out)
            marker.touch()
    for edit in case.edits:
        edit.apply(code)
    for make in case.data:
        make(code)
    began = time.monotonic()
    row: dict[str, Any] = {}
    for number, command in enumerate((*case.before, case.command)):
        row = run_program(case, command, code, out, code.parent / f"{code.name}.{number}.log")
        if row["status"] != 0:
            break
    passed = row["status"] == 0 and row["steps"] >= case.steps
    return {**row, "passed": passed, "wanted": case.steps, "secs": round(time.monotonic() - began)}


def run_program(case: Case, command: str, code: Path, out: Path, log: Path) -> dict[str, Any]:
    """Run a program to its end or the limit of time, and return its status, steps and last line."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(out / "stand_ins"), str(ROOT)]),
        "MPLBACKEND": "agg",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TPACK_DATASET": str(out / "datasets"),
        "TRIAL_GPUS": str(case.gpus),
    }
    arguments = command.replace("DATASETS", str(out / "datasets")).split()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=code,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | str = process.wait(case.seconds)
        except subprocess.TimeoutExpired:
            status = f"not ended after {case.seconds:.0f} s"
        finally:
            kill_group(process.pid)
            process.wait()
    steps = [int(found) for found in STEPS.findall(log.read_text(errors="replace"))]
    return {"status": status, "steps": max(steps, default=0), "error": last_line(log) if status != 0 else ""}


def shown(case: Case, row: dict[str, Any]) -> str:
    """Return a row as a line of a Markdown table."""
    result = "passed" if row["passed"] else "failed"
    error = re.sub(r"\s+", " ", row["error"])[:200].replace("|", "/")
    own = "; edited: its own fault" if any(edit.why == "own" for edit in case.edits) else ""
    reason = "" if row["passed"] else f"{row['status']}: {error}"
    return f"| {case.name} | {result} | {row['steps']} | {row['secs']} s | {reason}{own} |"


if __name__ == "__main__":
    main()
