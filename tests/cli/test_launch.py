"""The command ``tpack launch`` with real processes: what they are told, who failed, and what is done anew."""

import json
import os
import re
import signal

import pytest

from tests.helpers.launching import DEAF, Launched, assert_gone, waiting
from tpack.cli import launch
from tpack.cli.launcher import restarts as attempts
from tpack.cli.launcher.job_run import Job
from tpack.cli.main import main

# Says what it finds out about its place; a parameter server then waits until it is ended.
WHO = """
import json, os, sys, time
from tpack.multi_worker.cluster.resolver import resolve_cluster
member = resolve_cluster(timeout_secs=5)
ranks = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
place = [member.job, member.index, member.workers, member.address, member.local_size]
print("told " + json.dumps([*place, ranks, sys.argv[1:], os.environ["EXTRA"]]))
print("an error", file=sys.stderr)
assert "tensorflow" not in sys.modules
if member.job == "ps":
    open("there", "w").close()
    time.sleep(1000)
while not os.path.exists("there"):
    time.sleep(0.01)
"""


def test_each_process_is_told_its_place(tmp_path):
    options = ("-n", "2", "--ps", "1", "--evaluator", "--env", "EXTRA=a=b")
    with Launched(tmp_path, WHO, *options, arguments=("--lr", "1")) as launched:
        assert launched.end() == 0, launched.said()
    told = dict(line.split("] told ") for line in launched.lines)
    assert told.keys() == {"[0", "[1", "[2:ps", "[3:evaluator"}
    found = {label: json.loads(text) for label, text in told.items()}
    workers = found["[0"][2]
    assert len(set(workers)) == 2
    for rank, (label, job) in enumerate(
        [("[0", "chief"), ("[1", "worker"), ("[2:ps", "ps"), ("[3:evaluator", "evaluator")]
    ):
        ranks = [str(rank), "4", str(rank), "4"]
        address = [*workers, found["[2:ps"][3], None][rank]
        num_neighbours = 1 if job == "evaluator" else 3
        assert found[label] == [job, 0, workers, address, num_neighbours, ranks, ["--lr", "1"], "a=b"]
        # The file of a rank has both outputs, without the prefix.
        written = (launched.logs / f"rank{rank}.log").read_text(encoding="utf-8").splitlines()
        assert f"told {told[label]}" in written
        assert "an error" in written
    assert "[0] an error" in launched.said()
    assert launched.result()["exit_code"] == 0


# One worker is late for ever, the others wait for it and end.
LATE = """
import os, time
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
if os.environ["RANK"] == {!r}:
    time.sleep(1000)
connect_peers(resolve_cluster(), timeout_secs=1)
"""


@pytest.mark.parametrize(
    ("late", "reported"), [("1", "of 3 workers 1 did not come within 1 s: 1"), ("0", "within 1 s: worker 0 is missing")]
)
def test_a_worker_that_never_comes_is_named(tmp_path, late, reported):
    with Launched(tmp_path, LATE.format(late), "-n", "3", "--grace", "1") as launched:
        assert launched.end() == 10 + int(late)
    (failed,) = [line for line in launched.said().splitlines() if line.startswith("tpack launch: rank ")]
    assert failed.startswith(f"tpack launch: rank {late} (worker {late} on 127.0.0.1) failed: ranks ")
    assert reported in failed
    assert "and it did not end by itself" in failed
    assert launched.result()["attempts"][0]["lost"] == [int(late)]


def test_the_first_failure_ends_all_and_is_shown(tmp_path):
    # Rank 0 does not listen when it is asked to end; rank 1 fails when the others are there.
    fails = """
if os.environ["RANK"] == "1":
    while len([name for name in os.listdir(".") if name.startswith("there")]) < 2:
        time.sleep(0.01)
    for number in range(30):
        print("line", number)
    sys.exit("broken")
open("there" + os.environ["RANK"], "w").close()
"""
    deaf = f'if os.environ["RANK"] == "0":\n    {DEAF}'
    script = waiting(("0", "1"), before=deaf, then=fails)
    with Launched(tmp_path, script, "-n", "3", "--grace", "0.5") as launched:
        pids = launched.wait_for(3)
        assert launched.end() == 11
        assert_gone(pids)
    assert len(pids) == 5
    said = launched.said()
    assert "rank 1 (worker 1 on 127.0.0.1) failed: ended with exit code 1; its last lines:\n" in said
    assert "    line 29\n" in said
    assert "    broken\n" in said
    assert "    line 9\n" not in said
    result = launched.result()
    attempt = {
        "workers": 3,
        "failed": "ended with exit code 1",
        "rank": 1,
        "job": "worker",
        "host": "127.0.0.1",
        "code": 1,
    }
    nothing = {"lost": [], "last step": None, "recovery": None}
    assert result == {"exit_code": 11, "attempts": [{**attempt, **nothing}]}


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_reaches_all(tmp_path, signum, code):
    heard = "for each in (signal.SIGTERM, signal.SIGINT): signal.signal(each, lambda it, _: sys.exit(f'heard {it}'))"
    with Launched(tmp_path, waiting(("0",), before=heard), "-n", "2") as launched:
        pids = launched.wait_for(2)
        launched.signal(signum)
        assert launched.end() == code
        assert_gone(pids)
    for rank in (0, 1):
        assert f"[{rank}] heard {int(signum)}" in launched.said()


def test_a_third_signal_ends_what_does_not_listen(tmp_path):
    with Launched(tmp_path, waiting(before=DEAF), "-n", "1", "--grace", "1000") as launched:
        pids = launched.wait_for(1)
        for said in ("they have 1000 s to end", "SIGINT once more"):
            launched.signal(signal.SIGINT)
            while said not in launched.said():
                assert launched.process.poll() is None
        launched.signal(signal.SIGINT)
        assert launched.end() == 130
        assert_gone(pids)


def test_a_signal_does_not_interrupt_the_search_for_what_is_left(monkeypatch):
    ended = []

    def end_all(find, secs):
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(find())

    monkeypatch.setattr(launch, "end_all", end_all)
    monkeypatch.setattr(launch, "adopt_orphans", lambda adopts=True: None)
    handlers = [signal.getsignal(signum) for signum in launch.SIGNALS]
    with launch._nothing_survives(Job(["true"], ".", {"TPACK_LAUNCH_ID": "none"})):
        pass
    assert ended == [[]]
    assert [signal.getsignal(signum) for signum in launch.SIGNALS] == handlers


@pytest.mark.parametrize("victim", ["launcher", "agent"])
def test_nothing_survives_a_kill(tmp_path, victim):
    with Launched(tmp_path, waiting(("0",)), "-n", "2") as launched:
        pids = launched.wait_for(2)
        agents = launched.agents()
        assert len(agents) == 1
        killed = launched.process if victim == "launcher" else agents[0]
        killed.send_signal(signal.SIGKILL)
        code = launched.end()
        assert_gone([*pids, agents[0].pid])
    assert code == (-signal.SIGKILL if victim == "launcher" else 10)
    if victim == "agent":
        assert "rank 0 (worker 0 on 127.0.0.1) failed: 127.0.0.1 was lost" in launched.said()


# Fails in the first attempts, each in another way, and then says how many there are.
LOSING = """
import os, signal, sys, time
attempt, rank, size = (int(os.environ[name]) for name in ("TPACK_RESTART_COUNT", "RANK", "WORLD_SIZE"))
print("attempt", attempt, "of", size)
open(f"attempt{attempt}-{rank}", "w").close()
while sum(name.startswith(f"attempt{attempt}-") for name in os.listdir(".")) < size:
    time.sleep(0.01)
if attempt == 0 and rank == 2:
    sys.exit(7)
if attempt == 1 and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if attempt < 2:
    time.sleep(1000)
"""


def test_a_job_is_started_anew_without_the_workers_that_were_lost(tmp_path):
    with Launched(tmp_path, LOSING, "-n", "3", "--restarts", "3", "--min-workers", "2") as launched:
        assert launched.end() == 0, launched.said()
    assert {line for line in launched.lines if "attempt 2" in line} == {"[0] attempt 2 of 2", "[1] attempt 2 of 2"}
    attempts = launched.result()["attempts"]
    assert [(each["workers"], each["rank"], each["code"], each["lost"]) for each in attempts] == [
        (3, 2, 7, []),
        (3, 1, -9, [1]),
        (2, None, None, []),
    ]
    assert "restart 2 of 3, with 2 workers" in launched.said()
    written = (launched.logs / "rank0.log").read_text(encoding="utf-8").splitlines()
    assert written == ["attempt 0 of 3", "--- restart 1 ---", "attempt 1 of 3", "--- restart 2 ---", "attempt 2 of 2"]


@pytest.fixture
def jobs(monkeypatch):
    """Jobs that end well at once, with their numbers of processes."""
    jobs = []

    class NoAttempt:
        """An attempt that ends well at once."""

        failure, signum, lost, step, is_making_room = None, None, frozenset(), None, False

        def __init__(self, job, plan, console, before, is_to_make_room):
            jobs.append((job, len(plan)))

        def run(self):
            """Do nothing."""

        def recovery(self):
            """Return that it made no step."""

    monkeypatch.setattr(attempts, "JobRun", NoAttempt)
    monkeypatch.setattr(launch, "adopt_orphans", lambda adopts=True: True)
    return jobs


@pytest.mark.parametrize(
    ("before", "after", "strayed"),
    [
        ([], ["-n", "2"], "-n"),
        ([], ["--lr", "1", "-n2"], "-n2"),
        ([], ["--hosts=a:2"], "--hosts=a:2"),
        (["--restarts", "1"], ["--ps", "1"], "--ps"),
        ([], ["--env", "CartPole", "--name", "-note"], None),
        (["-n", "1"], ["-n", "2"], None),
    ],
)
def test_options_behind_the_script_are_told_where_one_worker_is_started(tmp_path, jobs, capfd, before, after, strayed):
    assert main(["launch", "--log-dir", str(tmp_path), *before, "-m", "some.module", *after]) == 0
    ((job, size),) = jobs
    assert (size, job.command[3:]) == (1, after)
    said = (
        f"tpack launch: one worker is started, and {strayed} goes to the script: options of tpack launch stand before"
    )
    err = capfd.readouterr().err
    assert (said in err) if strayed else ("one worker" not in err)


def test_a_module_is_run_by_its_name(tmp_path, monkeypatch, jobs):
    monkeypatch.delenv("TPACK_CLUSTER_SECRET", raising=False)
    monkeypatch.setenv("TPACK_SHOWN", "1")
    monkeypatch.setenv("GIVEN", "2")
    options = ["--env", "GIVEN", "--grace", "7", "--start-timeout", "8", "--log-dir", str(tmp_path)]
    assert main(["launch", "-n", "5", *options, "-m", "some.module", "-n", "2"]) == 0
    job, size = jobs[0]
    assert (size, job.grace_secs, job.start_secs) == (5, 7.0, 8.0)
    # Workers on several machines trust each other by it.
    assert len(job.environment["TPACK_CLUSTER_SECRET"]) == 64
    assert job.command[1:] == ["-m", "some.module", "-n", "2"]
    assert (job.environment["TPACK_SHOWN"], job.environment["GIVEN"], job.environment["PYTHONUNBUFFERED"]) == (
        "1",
        "2",
        "1",
    )


# Runs on this machine what it is to run on another one; a machine called "down" does not answer, "silent" never does.
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
case $host in
    down) echo "ssh: connect to host down: No route to host" >&2; exit 255;;
    silent) exec sleep 1000;;
esac
echo "Welcome to $host, said by a start-up file"
exec env -i PATH="$PATH" TPACK_TEST_PROCESS="$TPACK_TEST_PROCESS" WHERE="$host" sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path):
    """A stand-in for ``ssh``, by the variable ``PATH``."""
    command = tmp_path / "bin" / "ssh"
    command.parent.mkdir()
    command.write_text(SSH, encoding="utf-8")
    command.chmod(0o755)
    return {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}


def test_machines_are_reached_by_ssh(tmp_path, ssh):
    script = """
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])
hosts = [address.partition(":")[0] for job in ("chief", "worker", "ps") for address in task["cluster"][job]]
told = [os.environ[name] for name in ("WHERE", "MASTER_ADDR", "LOCAL_RANK", "TPACK_CLUSTER_SECRET")]
if task["task"]["type"] == "ps":
    time.sleep(1000)
print("told", *hosts, *told, os.environ.get("HIDDEN"))
"""
    secret = {"TPACK_CLUSTER_SECRET": "s" * 16, "HIDDEN": "x"}
    with Launched(tmp_path, script, "--hosts", "a:2,me@b", "--ps", "2", **ssh, **secret) as launched:
        assert launched.end() == 0, launched.said()
    assert sorted(launched.lines) == [
        f"[0] told a a b a b a a 0 {'s' * 16} None",
        f"[1] told a a b a b a a 1 {'s' * 16} None",
        f"[2] told a a b a b me@b a 0 {'s' * 16} None",
    ]


def test_a_machine_that_is_lost_is_left_out(tmp_path, ssh):
    # The machine b goes with all that is on it.
    script = 'import os; os.environ["WHERE"] == "b" and os.kill(os.getppid(), 9); print("of", os.environ["WORLD_SIZE"])'
    script += '; os.environ["TPACK_RESTART_COUNT"] == "0" and __import__("time").sleep(1000)'
    options = ("--hosts", "a:2,b:2", "--restarts", "1", "--min-workers", "2", "--grace", "5")
    with Launched(tmp_path, script, *options, **ssh) as launched:
        assert launched.end() == 0, launched.said()
    assert launched.lines[-2:] == ["[0] of 2", "[1] of 2"] or launched.lines[-2:] == ["[1] of 2", "[0] of 2"]
    assert "rank 2 (worker 2 on b) failed: b was lost" in launched.said()


def test_a_machine_that_does_not_answer_is_named(tmp_path, ssh):
    script = "print('ready')"
    with Launched(tmp_path, script, "--hosts", "a,down", **ssh) as launched:
        assert launched.end() == 1
    assert "tpack launch: down could not be reached\n    ssh: connect to host down: No route to host" in launched.said()
    with Launched(tmp_path, script, "--hosts", "a,silent", "--start-timeout", "0.1", **ssh) as launched:
        assert launched.end() == 1
    assert "no answer within 0.1 s from " in launched.said()
    assert "silent" in launched.said()
    with Launched(tmp_path, script, "--hosts", "a", "--ssh", "no-such-ssh -v") as launched:
        assert launched.end() == 1
    assert "a: [Errno 2] No such file or directory: 'no-such-ssh'" in launched.said()


WRONG = [
    (["nowhere.py"], "SCRIPT got 'nowhere.py': expected a file of Python; use -m for a module"),
    (["--hosts", "a:x", "s.py"], "--hosts got 'a:x': expected machines with numbers of workers, such as a:4,b:4"),
    (["--hosts", "a:2", "-n", "3", "s.py"], "-n got 3: expected at most 2, the workers of --hosts"),
    (["--ssh", " ", "s.py"], "--ssh got nothing"),
    (["--env", "=1", "s.py"], "--env got '=1': expected NAME=VALUE"),
    (["--env", "TPACK_NOT_SET", "s.py"], "--env got 'TPACK_NOT_SET'"),
    (["--min-workers", "1", "s.py"], "without --restarts: expected both"),
    (["--min-workers", "3", "--restarts", "1", "-n", "2", "s.py"], "--min-workers got 3: expected at most 2"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_options_that_cannot_work_are_refused(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").touch()
    assert main(["launch", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("-n", "0", "got '0': expected a number of at least 1"),
        ("-n", "two", "got 'two': expected a number"),
        ("--ps", "-1", "got '-1': expected a number"),
        ("--restarts", "1.5", "got '1.5': expected a number"),
        ("--grace", "nan", "got 'nan': expected a number of seconds"),
        ("--grace", "soon", "got 'soon': expected a number of seconds"),
    ],
)
def test_numbers_that_are_none_are_refused(capsys, option, value, message):
    with pytest.raises(SystemExit) as exit_info:
        main(["launch", f"{option}={value}" if option.startswith("--") else f"{option}{value}", "s.py"])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


RECOVERING = """
import os, signal, sys, time
from tpack.utils.progress import any_launcher_line, report_phase
attempt, rank = int(os.environ["TPACK_RESTART_COUNT"]), int(os.environ["RANK"])
print("pid", os.getpid(), "of", os.getppid(), "this" in sys.modules)
report_phase("importing")
if attempt == 0:
    open(f"begun{rank}", "w").close()
    while not all(os.path.exists(f"begun{each}") for each in range(2)): time.sleep(0.01)
    if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)
report_phase("graph")
report_phase("first step")
"""


def test_a_job_has_a_directory_in_memory(tmp_path):
    script = "import os; path = os.environ['TPACK_MEMORY_DIR']; print(path, oct(os.stat(path).st_mode)[-3:])"
    with Launched(tmp_path, script, "-n", "2") as launched:
        assert launched.end() == 0
    first, second = (line.partition(" ")[2] for line in launched.lines)
    assert first == second
    path, mode = first.split()
    assert mode == "700"
    assert not os.path.exists(path)


def test_a_restart_is_forked_and_says_how_long_it_took(tmp_path):
    with Launched(tmp_path, RECOVERING, "-n", "2", "--restarts", "1", "--preload", "this") as launched:
        assert launched.end() == 0
    found = [line.split() for line in launched.lines]
    assert len({parent for _, _, _, _, parent, _ in found}) == 1
    assert {is_loaded for *_, is_loaded in found} == {"True"}
    assert_gone([int(found[0][4]), *(int(pid) for _, _, pid, *_ in found)])
    number = r"\d+\.\d\d"
    phases = ", ".join(f"{name} {number}" for name in ("ending", "starting", "importing", "graph", "first step"))
    said = launched.said()
    assert re.search(f"first step {number} s after the failure was found: {phases}\n", said), said
    first, second = launched.result()["attempts"]
    assert first["recovery"] is None
    assert re.fullmatch(f"first step {number} s after the failure was found: {phases}", second["recovery"])


JOINING = """
import os, signal, sys, time
from tpack.utils.progress import any_launcher_line
attempt, rank, size = (int(os.environ[name]) for name in ("TPACK_RESTART_COUNT", "RANK", "WORLD_SIZE"))
print("run", attempt, "size", size)
if attempt == 0:
    open(f"begun{rank}", "w").close()
    while not all(os.path.exists(f"begun{each}") for each in range(2)): time.sleep(0.01)
    if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)
step = 0
while attempt == 1:
    # In steps of ten, of which twenty are an epoch.
    any_launcher_line().report_position(1 + step // 20, step)
    step += 10
    time.sleep(0.02)
"""


@pytest.mark.parametrize(("options", "step"), [((), 20), (("--join-every", "50"), 50)])
def test_a_lost_worker_joins_again(tmp_path, options, step):
    joining = ("--restarts", "1", "--min-workers", "1", "--rejoin-after", "0", *options)
    with Launched(tmp_path, JOINING, "-n", "2", *joining) as launched:
        assert launched.end() == 0
    assert sorted(launched.lines) == [
        "[0] run 0 size 2",
        "[0] run 1 size 1",
        "[0] run 2 size 2",
        "[1] run 0 size 2",
        "[1] run 2 size 2",
    ]
    assert f"1 workers join after step {step}: 2 go on" in launched.said()
    assert [attempt["last step"] for attempt in launched.result()["attempts"]] == [None, step, None]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--rejoin-after", "3"), "--rejoin-after got a number without --min-workers: expected both"),
        (("--hosts", "a:2", "--spares", "2"), "--spares got 2: expected fewer than the 2 workers of --hosts"),
        (("--hosts", "a:2", "-n", "2", "--spares", "1"), "-n got 3: expected at most 2, the workers of --hosts"),
        (("--hosts", "@none"), "--hosts got @none: No such file or directory"),
        (("--on", "ray", "--spares", "1"), "--spares got a value with --on ray: expected one of the two"),
    ],
)
def test_what_cannot_work_with_spare_places_is_refused(tmp_path, monkeypatch, capsys, arguments, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").touch()
    assert main(["launch", *arguments, "script.py"]) == 2
    assert text in capsys.readouterr().err


def test_a_machine_that_appears_in_the_file_joins(tmp_path, ssh):
    script = """
import os, time
from tpack.utils.progress import any_launcher_line
print("run", os.environ["TPACK_RESTART_COUNT"], "on", os.environ["WHERE"], "of", os.environ["WORLD_SIZE"])
step = 0
while os.environ["WORLD_SIZE"] == "1":
    if step == 40:
        with open("hosts", "a") as file:
            file.write("b\\n")
    any_launcher_line().report_position(1 + step // 20, step)
    step += 10
    time.sleep(0.02)
"""
    (tmp_path / "hosts").write_text("a:1\n", encoding="utf-8")
    with Launched(tmp_path, script, "--hosts", "@hosts", **ssh) as launched:
        assert launched.end() == 0, launched.said()
    assert sorted(launched.lines) == ["[0] run 0 on a of 1", "[0] run 1 on a of 2", "[1] run 1 on b of 2"]
    assert re.search(r"1 workers join after step \d+: 2 go on", launched.said())
    assert len(launched.result()["attempts"]) == 2


def test_a_spare_machine_takes_over_from_one_that_is_lost(tmp_path, ssh):
    # The agent of b, whose fork server is the parent of the script.
    script = """
import os, psutil
if os.environ["WHERE"] == "b":
    psutil.Process(os.getppid()).parent().kill()
print("on", os.environ["WHERE"])
"""
    options = ("--hosts", "a,b,c", "--spares", "1", "--restarts", "1")
    with Launched(tmp_path, script, *options, **ssh) as launched:
        assert launched.end() == 0, launched.said()
    assert "worker 1 moves from b to a spare place on c" in launched.said()
    assert sorted(launched.lines)[-2:] == ["[0] on a", "[1] on c"]
