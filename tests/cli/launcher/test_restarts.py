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
from tpack.cli.launcher.restarts import HostFile, Members, Restarts, Team
from tpack.errors import ClusterError, ConfigError


class FakeAttempt:
    """An attempt in which the worker 1 fails, or is lost."""

    is_lost = False

    is_making_room, step, gone = False, None, frozenset()

    def __init__(self, job, plan, console, before=None, is_to_make_room=None):
        self.failure = JobFailure("failed", plan[1], 3) if plan else None
        self.lost = {1} if self.is_lost else set()
        self.signum = None
        if plan:
            console.put(plan[1], 1, f"attempt {job.environment['TPACK_RESTART_COUNT']}")

    def run(self):
        """Do nothing."""

    def recovery(self):
        """Return that it made no step."""


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


class Answering(ReachedMachines):
    """Machines of which some answer."""

    def __init__(self, *names):
        super().__init__()
        self.names = set(names)

    def answers(self, host):
        """Return whether it is one of them."""
        return host.name in self.names


A, B, C = (Host(name, None, name) for name in "abc")


def members(*hosts, answering="abc", **team):
    return Members(Team(hosts, **team), Answering(*answering))


def test_spare_places_take_over_from_a_lost_machine():
    found = members(A, A, B, B, spares=(C, C, C))
    said = found.replace_lost({2, 3}, {B})
    assert found.hosts == (A, A, C, C)
    assert said[0] == "worker 2 moves from b to a spare place on c"
    # A process that ended on a machine that answers is started there again.
    assert found.replace_lost({0}, set()) == []
    assert found.hosts == (A, A, C, C)
    # The last spare place is on the machine that is lost now.
    assert found.replace_lost({2, 3}, {C}) == []
    assert found.hosts == (A, A, C, C)


def test_lost_workers_are_left_out_where_fewer_are_enough():
    found = members(A, B, C, min_workers=1, spares=(A,))
    assert found.replace_lost({1}, set()) == ["worker 1 moves from b to a spare place on a"]
    # Ranks of one machine are consecutive.
    assert found.hosts == (A, A, C)
    assert found.replace_lost({2}, set()) == []
    assert found.hosts == (A, A)
    assert not found.has_ready()


def test_places_come_back_after_a_time_that_doubles(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    found = members(A, B, min_workers=1, rejoin_secs=10.0)
    waited = []
    for _ in range(3):
        found.replace_lost({1}, set())
        assert found.hosts == (A,)
        begin = now[0]
        while not found.has_ready():
            now[0] += 1.0
        waited.append(now[0] - begin)
        assert found.add_ready() == 1
        assert found.hosts == (A, B)
        assert not found.has_ready()
    assert waited == [10.0, 20.0, 40.0]


def test_a_place_whose_machine_does_not_answer_stays_out(monkeypatch):
    found = members(A, B, answering="a", min_workers=1, rejoin_secs=0.0)
    found.replace_lost({1}, {B})
    assert not found.has_ready()
    assert found.add_ready() == 0


def test_machines_that_are_new_in_a_file_join(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("a:1  # the first\n\n", encoding="utf-8")
    file = HostFile(str(path))
    assert file.slots == (A,)
    found = members(*file.slots, host_file=file)
    assert not found.has_ready()
    path.write_text("a:1\nb:2,c\n", encoding="utf-8")
    assert found.has_ready()
    assert found.add_ready() == 3
    assert found.hosts == (A, B, B, C)
    # What cannot be read, and what has gone, changes nothing for the workers there are.
    path.write_text("a:1,a:1 and more", encoding="utf-8")
    assert not found.has_ready()
    path.write_text("a:1", encoding="utf-8")
    assert not found.has_ready()
    assert found.hosts == (A, B, B, C)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"--hosts got @.*/none: No such file or directory"):
        HostFile(str(tmp_path / "none"))


class JoiningAttempt(FakeAttempt):
    """Attempts: worker 1 is lost, room is made for it, and all ends well."""

    calls = 0

    def __init__(self, job, plan, console, before, is_to_make_room):
        super().__init__(job, plan, console)
        number = JoiningAttempt.calls
        JoiningAttempt.calls += 1
        if number == 0:
            self.lost = {1}
        else:
            self.failure = None
            self.step = 40
            self.is_making_room = not before.is_making_room and is_to_make_room(40, 1)
            assert number > 1 or not is_to_make_room(40, 0), "before the next epoch"


def test_a_lost_worker_joins_again_without_a_restart_that_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(restarts, "JobRun", JoiningAttempt)
    monkeypatch.setattr(JoiningAttempt, "calls", 0)
    machines = Answering("127.0.0.1")
    code, text, result, _ = tried(tmp_path, machines, restarts=1, min_workers=1, rejoin_secs=0.0)
    assert code == 0
    assert [attempt["workers"] for attempt in result["attempts"]] == [3, 2, 3]
    assert "1 workers join after step 40: 3 go on" in text
