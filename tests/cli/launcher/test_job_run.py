"""One attempt at a job, by the outcome that is left in its attributes; whole jobs are in ``test_launch.py``."""

import os
import signal
import sys
from functools import partial

import pytest

from tests.helpers.launching import assert_gone
from tpack.cli.launcher.agent_client import ReachedMachines
from tpack.cli.launcher.console import Console
from tpack.cli.launcher.job_run import Job, JobFailure, JobRun
from tpack.cli.launcher.plan import Host, make_plan


@pytest.fixture
def console(tmp_path):
    console = Console(str(tmp_path))
    yield console
    console.close()


def attempt(console, code, num_workers=1, **options):
    """Run a program in some processes; return the attempt."""
    job = Job([sys.executable, "-u", "-S", "-c", code], os.getcwd(), {}, **options)
    done = JobRun(job, make_plan((Host(),) * num_workers, 0, False), console)
    done.run()
    return done


def test_a_good_end_leaves_nothing(console):
    handlers = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    done = attempt(console, "print('done')", 2)
    assert (done.failure, done.lost, done.signum) == (None, set(), None)
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers


def test_a_command_that_is_not_there_is_a_failure(console):
    job = Job(["/no/such/python"], os.getcwd(), {})
    done = JobRun(job, make_plan((Host(),), 0, False), console)
    done.run()
    assert "cannot be started in" in done.failure.text
    assert (done.failure.process.rank, done.failure.code) == (0, None)


def test_what_fails_while_all_are_ended_is_not_the_first_failure(console):
    # Rank 0 fails; rank 1, which is asked to end, fails for that.
    code = "import os, sys, time, signal; signal.signal(15, lambda *_: sys.exit(9))\n"
    code += "if os.environ['RANK'] == '1': open('there', 'w').close(); time.sleep(1000)\n"
    code += "while not os.path.exists('there'): time.sleep(0.01)\nsys.exit(4)"
    job = Job([sys.executable, "-u", "-S", "-c", code], console.directory, {})
    done = JobRun(job, make_plan((Host(),) * 2, 0, False), console)
    done.run()
    assert done.failure == JobFailure("ended with exit code 4", done.failure.process, 4)
    assert done.failure.process.rank == 0
    assert done.lost == set()


def test_sighup_is_passed_on_as_sigterm(console, request):
    # Tests may have been started by nohup.
    request.addfinalizer(partial(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL)))
    code = "import os, signal; print('pid', os.getpid()); os.kill(int(os.environ['LAUNCHER']), signal.SIGHUP)"
    code += "; signal.pause()"
    job = Job([sys.executable, "-u", "-S", "-c", code], os.getcwd(), {"LAUNCHER": str(os.getpid())})
    plan = make_plan((Host(),), 0, False)
    done = JobRun(job, plan, console)
    done.run()
    assert (done.signum, done.failure) == (signal.SIGHUP, None)
    assert_gone([int(console.last_lines(plan[0])[0].split()[1])])


# Answers, has the attempt ended by a signal, and then neither listens nor ends.
STUCK = """
import json, os, signal, sys, time
print(json.dumps({"ports": [1, 2]}), flush=True)
for order in sys.stdin:
    if json.loads(order)["do"] == "start":
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(1000)
"""


def test_a_machine_that_is_stuck_is_given_up(tmp_path, console, monkeypatch):
    monkeypatch.setattr("tpack.cli.launcher.job_run._AGENT_SECS", 0.1)
    (tmp_path / "stuck.py").write_text(STUCK, encoding="utf-8")
    job = Job(
        ["true"],
        os.getcwd(),
        {},
        machines=ReachedMachines(f"{sys.executable} -S {tmp_path / 'stuck.py'}"),
        grace_secs=0.1,
    )
    done = JobRun(job, make_plan((Host("b", 1, "b"),), 0, False), console)
    done.run()
    assert (done.signum, done.failure, done.lost) == (signal.SIGTERM, None, {0})


# The first rank does what it is told when all have begun; the others wait for that, and end since they have lost it.
SURVIVORS = """
import os, signal, sys, time
open("begun" + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "0":
    while not all(os.path.exists(f"begun{{rank}}") for rank in range(3)): time.sleep(0.01)
    open("there", "w").close()
    {culprit}
while not os.path.exists("there"): time.sleep(0.01)
print({words!r}.format(os.environ["RANK"]), flush=True)
sys.exit(75)
"""
WORDS = "ERR Rank {} ends with code 75, since it has lost rank 0: worker 0 was lost: no heartbeat"
FAILED = "ERR Rank {} ends with code 75, since it has lost rank 0: worker 0 failed: ValueError: boo"
OTHER_WORDS = "ERR Rank 0 ends with code 75, since it has lost ranks 1, 2."


@pytest.mark.parametrize(
    ("culprit", "words", "text", "code", "lost"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            WORDS,
            'ranks 1, 2 reported "worker 0 was lost: no heartbeat", and it did not end by itself',
            None,
            {0},
        ),
        ("time.sleep(1000)", "", "ranks 1, 2 reported it as lost, and it did not end by itself", None, {0}),
        ("time.sleep(1.0); sys.exit(1)", FAILED, "ended with exit code 1", 1, set()),
        ("time.sleep(1000)", FAILED, '"worker 0 failed: ValueError: boo", and it had not ended 3 s later', None, set()),
        ("time.sleep(0.2); sys.exit(4)", WORDS, "ended with exit code 4", 4, set()),
        (f"print({OTHER_WORDS!r}); sys.exit(75)", WORDS, "was lost by others and has lost them too", None, set()),
    ],
    ids=["stopped", "stopped and not told", "raised", "raised and hangs", "failed late", "each lost the others"],
)
def test_who_was_lost_is_named_and_not_who_survived(console, monkeypatch, culprit, words, text, code, lost):
    # The launcher waits long for what ends by itself.
    ends = "sys.exit" in culprit
    monkeypatch.setattr("tpack.cli.launcher.job_run._NAMED_SECS", 60.0 if ends else 0.5)
    monkeypatch.setattr("tpack.cli.launcher.job_run._UNNAMED_SECS", 60.0 if ends else 3.0)
    script = SURVIVORS.format(culprit=culprit, words=words)
    job = Job([sys.executable, "-u", "-S", "-c", script], console.directory, {})
    done = JobRun(job, make_plan((Host(),) * 3, 0, False), console)
    done.run()
    assert text in done.failure.text
    assert (done.failure.process.rank, done.failure.code, done.lost) == (0, code, lost)


def test_a_parameter_server_that_ends_for_a_lost_worker_has_not_failed(console):
    script = SURVIVORS.format(culprit="signal.pause()", words=WORDS)
    job = Job([sys.executable, "-u", "-S", "-c", script], console.directory, {})
    done = JobRun(job, make_plan((Host(),) * 2, 1, False), console)
    done.run()
    assert 'ranks 1, 2 reported "worker 0 was lost' in done.failure.text
    assert (done.failure.process.rank, done.lost) == (0, {0})
