"""A job that is tried until it ends well or has failed too often, with attempts that only say that they failed."""

import io
import json
from contextlib import contextmanager

import pytest

from tpack.cli.launcher import restarts
from tpack.cli.launcher.agent_client import ReachedMachines
from tpack.cli.launcher.console import Console
from tpack.cli.launcher.job_run import Job, JobFailure
from tpack.cli.launcher.plan import Host
from tpack.cli.launcher.restarts import Restarts, Team
from tpack.errors import ClusterError


class FakeAttempt:
    """An attempt in which the worker 1 fails, or is lost."""

    is_lost = False

    def __init__(self, job, plan, console):
        self.failure = JobFailure("failed", plan[1], 3) if plan else None
        self.lost = {1} if self.is_lost else set()
        self.signum = None
        if plan:
            console.put(plan[1], 1, f"attempt {job.environment['TPACK_RESTART_COUNT']}")

    def run(self):
        """Do nothing."""


def tried(directory, machines=None, **team):
    """Try a job of three workers; return the exit code, what was said, what was written down, and the attempts."""
    said = io.StringIO()
    console = Console(str(directory), (io.StringIO(), said))
    done = Restarts(Job(["true"], ".", {}, machines or ReachedMachines()), Team((Host(),) * 3, **team), console)
    code = done.run()
    console.close()
    return code, said.getvalue(), json.loads((directory / "result.json").read_text(encoding="utf-8")), done


@pytest.mark.parametrize(
    ("is_lost", "min_workers", "num_workers", "said"),
    [
        (False, None, [3, 3, 3], "restart 2 of 2, with 3 workers"),
        (True, None, [3, 3, 3], "restart 2 of 2, with 3 workers"),
        (False, 2, [3, 3, 3], "restart 2 of 2, with 3 workers"),
        (True, 2, [3, 2], "the workers 1 were lost, and 1 are left: --min-workers wants 2"),
    ],
)
def test_a_job_ends_when_it_has_failed_too_often(tmp_path, monkeypatch, is_lost, min_workers, num_workers, said):
    monkeypatch.setattr(restarts, "JobRun", FakeAttempt)
    monkeypatch.setattr(FakeAttempt, "is_lost", is_lost)
    code, text, result, done = tried(tmp_path, restarts=2, min_workers=min_workers)
    assert (code, result["exit_code"]) == (11, 11)
    assert [attempt["workers"] for attempt in result["attempts"]] == num_workers
    assert said in text
    last = len(num_workers) - 1
    failed = f"rank 1 (worker 1 on 127.0.0.1) failed: failed; its last lines:\n    attempt {last}"
    assert done.failure_text() == failed
    assert failed in text


class NoRoom(ReachedMachines):
    """Machines that have no room for anybody the second time."""

    calls = 0

    @contextmanager
    def take(self, workers):
        """Return the workers once."""
        self.calls += 1
        if self.calls > 1:
            raise ClusterError("no room")
        yield workers


def test_machines_without_room_end_an_attempt_like_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(restarts, "JobRun", FakeAttempt)
    code, text, result, done = tried(tmp_path, NoRoom(), restarts=2)
    assert (code, done.failure_text()) == (1, "no room")
    assert [attempt["failed"] for attempt in result["attempts"]] == ["failed", "no room", "no room"]
    assert text.count("no room") == 2
