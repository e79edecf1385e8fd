"""Run ``tpack launch`` in a process of its own, and look at what it has started."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.helpers.source import ROOT

LIMIT_SECS = 300.0

# Says "ready" with its process number, and waits; starts a process in the background that nobody waits for, first.
WAITING = """
import os, signal, subprocess, sys, time
{before}
if os.environ["RANK"] in {parents!r}:
    background = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], start_new_session=True)
    print("pid", background.pid)
print("pid", os.getpid())
print("ready")
{then}
# A signal that arrives just before a process sleeps is handled when it wakes: it never sleeps long.
for _ in range(10_000):
    time.sleep(0.1)
"""
DEAF = "for each in (signal.SIGTERM, signal.SIGINT): signal.signal(each, signal.SIG_IGN)"


class Launched:
    """A running ``tpack launch``; ended at the end of the ``with`` block, if it has not ended by itself.

    Args:
        directory: where it runs; its script and its logs are there.
        script: the text of the script.
        options: of the command.
        arguments: of the script.
        env: variables that are set in addition.
    """

    def __init__(
        self, directory: Path, script: str, *options: str, arguments: tuple[str, ...] = (), **env: str
    ) -> None:
        (directory / "script.py").write_text(script, encoding="utf-8")
        self.logs = directory / "logs"
        self.errors = directory / "errors.txt"
        command = [sys.executable, "-m", "tpack", "launch", "--log-dir", "logs", *options, "script.py", *arguments]
        with self.errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT), **env},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.lines: list[str] = []

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def wait_for(self, count: int, text: str = "ready") -> list[int]:
        """Read lines until so many end with a text; return the process numbers that were printed until then."""
        assert self.process.stdout is not None
        while sum(line.endswith(text) for line in self.lines) < count:
            line = self.process.stdout.readline()
            assert line, (self.lines, self.errors.read_text(encoding="utf-8"))
            self.lines.append(line.rstrip("\n"))
        return [int(line.split()[-1]) for line in self.lines if "] pid " in line]

    def signal(self, signum: int) -> None:
        """Send a signal to the launcher alone."""
        self.process.send_signal(signum)

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        output, _ = self.process.communicate(timeout=LIMIT_SECS)
        self.lines += output.splitlines()
        return self.process.returncode

    def said(self) -> str:
        """Return what it and the processes wrote to standard error."""
        return self.errors.read_text(encoding="utf-8")

    def result(self) -> Any:
        """Return what it wrote down of the job."""
        return json.loads((self.logs / "result.json").read_text(encoding="utf-8"))

    def agents(self) -> list[psutil.Process]:
        """Return its agents."""
        return psutil.Process(self.process.pid).children()


def assert_gone(pids: list[int]) -> None:
    """Assert that processes end soon."""
    assert pids
    deadline = time.monotonic() + LIMIT_SECS
    while running := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, running
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def waiting(parents: tuple[str, ...] = (), before: str = "", then: str = "") -> str:
    """Return a script that waits.

    Args:
        parents: the ranks that start a process in the background.
        before: what it does first.
        then: what it does instead of waiting.
    """
    return WAITING.format(parents=parents, before=before, then=then)
