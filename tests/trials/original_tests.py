"""Run TensorFlow 1's own tests of strategies and estimators against tpack.

    python -m tests.trials.original_tests CHECKOUT [CHECKOUT ...] [--only TEXT] [--out DIRECTORY]

A checkout is a directory with the sources of a release, v1.5.0 to v1.11.0, of which ``tensorflow/contrib/distribute``,
``tensorflow/contrib/estimator`` and ``tensorflow/contrib/all_reduce`` are enough. Each file of tests runs in a process
of its own, once for all checkouts in which it is the same. What `tests.trials.original_names` says stands in for the
modules that they import. Messages of errors are not compared, only their classes.

Tests in eager mode, on TPUs and with several workers are skipped, since tpack has none of these; so are the files in
`NOT_OURS`, whose subject tpack does not have. A test that fails for the want of a name of TensorFlow 1 or of a GPU is
counted by itself: `WANTING` says how that is known.
"""

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

FOLDERS = ("distribute", "estimator", "all_reduce")
TIME_LIMIT_SECS = 1200
_BASES = "classes that are not in the checkouts"
NOT_OURS = {
    "boosted_trees_test.py": "boosted trees",
    "combinations_test.py": "a helper of the tests themselves",
    "dnn_linear_combined_test.py": _BASES,
    "dnn_test.py": _BASES,
    "keras_test.py": "estimators of Keras models",
    "linear_test.py": _BASES,
    "multi_worker_strategy_test.py": "several workers",
    "rnn_test.py": "estimators of recurrent networks",
    "saved_model_estimator_test.py": "estimators of SavedModels",
    "estimator_training_test.py": "several workers",
    "input_ops_test.py": "several workers",
}


WANTING = {
    "of a name that tpack does not have": r"MissingName|no attribute '(map|_defun|defun|_[a-z_]+)'",
    "in eager mode": r"no attribute 'numpy'|Eager",
    "on GPUs": r"a GPU of its own for each tower",
}
"""What is told by the error of a test that cannot pass here."""


class Result(unittest.TestResult):
    """Counts the tests that passed as well."""

    def __init__(self) -> None:
        super().__init__()
        self.num_passed = 0

    def addSuccess(self, test: Any) -> None:
        """Count a test."""
        self.num_passed += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", help="a part of the paths of the files to run")
    parser.add_argument("--out", type=Path, help="where to write what failed; a file for each file of tests")
    parser.add_argument("--tests", default="", help="a part of the names of the tests to run")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        run_file(options.checkouts[0], options.one, options.tests)
    else:
        run_checkouts(options)


def run_checkouts(options: argparse.Namespace) -> None:
    """Run the tests of all checkouts, and print what came of them by folder and release."""
    known: dict[str, Counter[str]] = {}
    totals: dict[tuple[str, str], Counter[str]] = {}
    for checkout in options.checkouts:
        for path in test_files(checkout, options.only):
            digest = f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}"
            if digest not in known:
                known[digest] = run_process(checkout, path, options)
            folder = path.relative_to(checkout / "tensorflow/contrib").parts[0]
            totals.setdefault((folder, checkout.name), Counter()).update(known[digest])
    for (folder, release), counts in sorted(totals.items()):
        print(f"{folder:12} {release:10} {_shown(counts)}")


def test_files(checkout: Path, only: str) -> list[Path]:
    """Return the files of a checkout that are tests of what tpack has."""
    root = checkout / "tensorflow/contrib"
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*_test.py"))]
    return [path for path in files if only in str(path) and path.name not in NOT_OURS]


def run_process(checkout: Path, path: Path, options: argparse.Namespace) -> Counter[str]:
    """Run one file of tests in a process of its own, and return how many passed, failed and were skipped."""
    command = [sys.executable, "-m", "tests.trials.original_tests", str(checkout), "--one", str(path)]
    command += ["--tests", options.tests]
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, timeout=TIME_LIMIT_SECS, check=False)
            result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"counts": {"crashed": 1}}
        except subprocess.TimeoutExpired:
            result = {"counts": {"timed out": 1}}
        log.seek(0)
        result.setdefault("failures", {"the process": log.read().decode(errors="replace")})
    counts = Counter(result["counts"])
    print(f"{checkout.name:10} {path.name:42} {_shown(counts)}", flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        lines = [f"=== {name}\n{text}\n" for name, text in result["failures"].items()]
        (options.out / f"{checkout.name}-{path.stem}.txt").write_text("".join(lines))
    return counts


def run_file(checkout: Path, path: Path, only: str) -> None:
    """Run one file of tests in this process, and print a line of JSON with what came of it."""
    # TensorFlow is for this process alone, and not for the one that runs it.
    names = importlib.import_module("tests.trials.original_names")
    names.adapt()
    names.serve_modules(checkout)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module: Any = importlib.util.module_from_spec(spec)
    result = Result()
    sys.modules[path.stem] = module
    sys.argv = [str(path)]
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
        # The tests of before 1.11 look there for whether they are to use GPUs.
        module.GPU_TEST = True
        for test in _flatten(unittest.defaultTestLoader.loadTestsFromModule(module)):
            if only in str(test):
                unittest.TestSuite([test]).run(result)
    told = {str(test): text for test, text in (*result.failures, *result.errors)}
    wanting = {name: kind for name, text in told.items() if (kind := _wanting(text)) is not None}
    counts = Counter(passed=result.num_passed, failed=len(told) - len(wanting))
    counts.update(wanting.values())
    counts.update(f"skipped: {_kind(why)}" for _, why in result.skipped if why != "Not a test.")
    print(json.dumps({"counts": counts, "failures": told}))


def _wanting(text: str) -> str | None:
    """Return what a test wants that there is not, as its error says, or None if it failed."""
    last = "\n".join(line for line in text.splitlines()[-12:] if not line.startswith(" "))
    return next((f"wanting: {what}" for what, pattern in WANTING.items() if re.search(pattern, last)), None)


def _flatten(suite: unittest.TestSuite) -> list[Any]:
    return [test for part in suite for test in (_flatten(part) if isinstance(part, unittest.TestSuite) else [part])]


def _kind(why: str) -> str:
    return why if len(why) < 40 else f"{why[:37]}..."


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)


if __name__ == "__main__":
    main()
