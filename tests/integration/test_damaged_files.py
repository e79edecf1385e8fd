"""A small part of ``python -m tests.trials.damaged_files``: files of every format are damaged, and read."""

from tests.helpers.preloaded import ROOT, run


def test_damaged_files_are_refused_or_read_and_nothing_else_happens():
    done = run(ROOT / "tests" / "trials" / "damaged_files.py", ["--count", "8", "--seed", "7"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2].split()[0] == "all"
