"""Report of where a run of the suite spends its time: by folder, and the slowest tests.

Each test is measured by two clocks. *Wall* is the time until it ends, and depends on the load of the machine; *CPU* is
the processor time of the test's process and of the processes that it started, and depends on it little. A worker of
pytest-xdist measures, and the process that prints collects.

The report stands before pytest's closing line. Everything that was measured is written to ``build/test_times.json``, or
to the file that the environment variable ``TPACK_TEST_TIMES`` names.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import preloaded

SLOWEST = 50
# Tests below this are left out of the printed table; a run of one quick file prints nothing.
SHOWN_FROM_SECS = 0.5
STARTUP = "(imports and collection)"


@dataclass
class Times:
    """Seconds of some tests on both clocks, and the number of tests."""

    wall: float = 0.0
    cpu: float = 0.0
    tests: int = 0

    def add(self, other: "Times") -> None:
        """Add another measurement."""
        self.wall += other.wall
        self.cpu += other.cpu
        self.tests += other.tests


def cpu_secs() -> float:
    """Return the processor time of this process, of its children that have ended, and of preloaded scripts."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system + preloaded.cpu_secs()


def folder_of(nodeid: str) -> str:
    """Return the folder below ``tests`` that a test lies in; tests of the top folder lie in ``.``."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "."


def totals(tests: Mapping[str, Times], key: Any) -> dict[str, Times]:
    """Return the sums of `tests` over what `key` makes of their names, the largest first."""
    found: dict[str, Times] = defaultdict(Times)
    for nodeid, times in tests.items():
        found[key(nodeid)].add(times)
    return dict(sorted(found.items(), key=lambda item: -item[1].cpu))


class RunTimes:
    """A plugin of pytest that measures each test and reports at the end of the run."""

    def __init__(self) -> None:
        self._tests: dict[str, Times] = defaultdict(Times)
        self._startup = Times()
        self._began = time.monotonic()
        self._last_cpu = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[None]:
        """Measure the collection, which imports every test file and TensorFlow, once in each process."""
        began = time.monotonic()
        result = yield
        self._last_cpu = cpu_secs()
        output = getattr(session.config, "workeroutput", None)
        here = Times(time.monotonic() - began, self._last_cpu)
        if output is None:
            self._startup.add(here)
        else:
            output["startup"] = asdict(here)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect how long a worker took to start."""
        output = getattr(node, "workeroutput", None) or {}
        if "startup" in output:
            self._startup.add(Times(**output["startup"]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: Any) -> Iterator[None]:
        """Add a test's processor time to its last report; attributes of reports travel to the printing process."""
        report = yield
        report.cpu_secs = 0.0
        if call.when == "teardown":
            now = cpu_secs()
            report.cpu_secs = now - self._last_cpu
            self._last_cpu = now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Collect the times of a phase of a test."""
        self._tests[report.nodeid].add(Times(report.duration, report.cpu_secs, int(report.when == "call")))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print both tables and write the file."""
        if not self._tests:
            return
        path = Path(
            os.environ.get("TPACK_TEST_TIMES") or terminalreporter.config.rootpath / "build" / "test_times.json"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_json(), indent=1), encoding="utf-8")
        slowest = sorted(self._tests.items(), key=lambda item: -item[1].wall)[:SLOWEST]
        slowest = [(nodeid, times) for nodeid, times in slowest if times.wall >= SHOWN_FROM_SECS]
        if slowest:
            terminalreporter.section("time by folder", "-")
            terminalreporter.write_line("   wall s     CPU s  tests")
            for name, times in {STARTUP: self._startup, **totals(self._tests, folder_of)}.items():
                terminalreporter.write_line(f"{times.wall:9.1f} {times.cpu:9.1f} {times.tests:6d}  {name}")
            terminalreporter.section(f"slowest {len(slowest)} tests", "-")
            for nodeid, times in slowest:
                terminalreporter.write_line(f"{times.wall:9.1f} {times.cpu:9.1f}  {nodeid}")
            terminalreporter.write_line(f"All times: {path}")

    def _as_json(self) -> dict[str, Any]:
        by = {"folders": folder_of, "files": lambda nodeid: nodeid.partition("::")[0]}
        sums = {name: {key: asdict(times) for key, times in totals(self._tests, of).items()} for name, of in by.items()}
        return {
            "wall": time.monotonic() - self._began,
            "startup": asdict(self._startup),
            **sums,
            "tests": {nodeid: [round(times.wall, 3), round(times.cpu, 3)] for nodeid, times in self._tests.items()},
        }
