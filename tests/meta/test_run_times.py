"""Every run of the suite reports its time by folder and its slowest tests, before pytest's closing line."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.run_times import Times, folder_of, totals
from tests.helpers.source import ROOT

CONFTEST = """
from tests.helpers import run_times

def pytest_configure(config):
    run_times.SHOWN_FROM_SECS = 0
    config.pluginmanager.register(run_times.RunTimes())
"""
BUSY = """
import subprocess, sys

def test_busy():
    count = "total = sum(range(10**7))"
    subprocess.run([sys.executable, "-c", count], check=True)

def test_idle():
    assert True
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_report_stands_before_the_closing_line_and_in_a_file(tmp_path, workers):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "one").mkdir(parents=True)
    (tmp_path / "tests" / "one" / "test_one.py").write_text(BUSY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, "tests"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "2 passed" in lines[-1]
    headings = [line.strip("- ") for line in lines if line.startswith("--")]
    assert headings == ["time by folder", "slowest 2 tests"]
    written = json.loads((tmp_path / "build" / "test_times.json").read_text())
    busy, idle = (
        written["tests"]["tests/one/test_one.py::test_busy"],
        written["tests"]["tests/one/test_one.py::test_idle"],
    )
    # The work was that of a process that the test started.
    assert busy[1] > idle[1]
    assert written["folders"]["one"]["tests"] == 2
    assert written["startup"]["cpu"] > 0


def test_times_are_summed_by_folder_the_largest_first():
    tests = {"tests/b/c/test_x.py::test_y[1]": Times(1, 2, 1), "tests/test_z.py::test_a": Times(1, 1, 1)}
    tests["tests/b/test_v.py::test_w[a/b]"] = Times(3, 4, 1)
    assert list(totals(tests, folder_of).items()) == [("b", Times(4, 6, 2)), (".", Times(1, 1, 1))]
