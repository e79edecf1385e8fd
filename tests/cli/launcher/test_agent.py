"""The agent, which runs processes by order: by its own protocol, in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tests.helpers.launching import assert_gone
from tests.helpers.source import ROOT
from tpack.cli.launcher.agent import _Stream

AGENT = [sys.executable, "-c", "from tpack.cli.launcher.agent import main; main()"]
BACKGROUND = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-S', '-c', {code!r}], start_new_session=True)"
)


class Agent:
    """An agent that runs."""

    def __enter__(self):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(AGENT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)

    def order(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def start(self, *codes, directory="/"):
        processes = [
            {"rank": rank, "command": [sys.executable, "-u", "-S", "-c", code], "environment": {"MY_RANK": str(rank)}}
            for rank, code in enumerate(codes)
        ]
        self.order("start", processes=processes, directory=str(directory))

    def report(self):
        return json.loads(self.process.stdout.readline())

    def reports(self):
        """Return what it reports until it ends."""
        return [json.loads(line) for line in self.process.stdout]


def test_processes_print_and_end(tmp_path):
    says = "import os, sys; print(os.environ['MY_RANK'], os.getcwd()); sys.stderr.write('no end'); sys.exit(3)"
    with Agent() as agent:
        agent.start(says, "import os; os.kill(os.getpid(), 9)", directory=tmp_path)
        reports = agent.reports()
    assert {"rank": 0, "stream": 1, "text": f"0 {tmp_path}"} in reports
    assert {"rank": 0, "stream": 2, "text": "no end"} in reports
    assert [report for report in reports if "code" in report and report["rank"]] == [{"rank": 1, "code": -9}]
    assert {"rank": 0, "code": 3} in reports
    assert reports[-1] == {"done": True, "left": []}


def test_a_process_that_cannot_be_started_is_told_of():
    with Agent() as agent:
        agent.start("", directory="/nowhere at all")
        first, last = agent.reports()
    assert first["rank"] == 0
    assert "cannot be started in /nowhere at all: [Errno 2]" in first["failed"]
    assert last["done"]


def test_ports_stay_reserved_while_it_lives():
    with Agent() as agent:
        agent.order("reserve", host="127.0.0.1", count=2)
        ports = agent.report()["ports"]
        assert len(set(ports)) == 2
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", ports[0]))
        # One who asks for just this port, as a server does, gets it.
        socket.create_server(("127.0.0.1", ports[1])).close()


def test_all_are_ended_after_the_time_that_they_have():
    waits = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    waits += "print('ready'); time.sleep(1000)"
    background = BACKGROUND.format(code=waits) + "; print('pid', child.pid); child.wait()"
    with Agent() as agent:
        agent.start(waits, background)
        texts = [agent.report()["text"] for _ in range(3)]
        assert sorted(texts)[1:] == ["ready", "ready"]
        agent.order("end", signum=signal.SIGTERM, grace_secs=0.1)
        *ends, last = agent.reports()
    assert sorted(ends, key=lambda end: end["rank"]) == [{"rank": 0, "code": -9}, {"rank": 1, "code": -15}]
    pid = int(sorted(texts)[0].split()[1])
    assert last == {"done": True, "left": [pid]}
    assert_gone([pid])


def test_what_ends_after_its_parent_leaves_no_number_behind():
    # A process whose parent has ended, and which ends when it is told.
    orphan = "import os, sys; os.read(0, 1)"
    parent = (
        f"import subprocess, sys; print('pid', subprocess.Popen([sys.executable, '-S', '-c', {orphan!r}], stdin=0).pid)"
    )
    code = "import os, subprocess, sys, time; there, here = os.pipe(); "
    code += f"subprocess.run([sys.executable, '-S', '-c', {parent!r}], stdin=there); os.close(here); time.sleep(1000)"
    with Agent() as agent:
        agent.start(code)
        pid = int(agent.report()["text"].split()[1])
        deadline = time.monotonic() + 300
        while psutil.pid_exists(pid):
            assert time.monotonic() < deadline


@pytest.mark.parametrize("end", ["input", "silence", "SIGTERM"])
def test_without_a_launcher_nothing_goes_on(end):
    with Agent() as agent:
        agent.start("import os, time; print('pid', os.getpid()); time.sleep(1000)")
        pid = int(agent.report()["text"].split()[1])
        if end == "input":
            agent.process.stdin.close()
        elif end == "silence":
            agent.order("watch", silence_secs=0.3)
            agent.order("nothing")
        else:
            agent.process.terminate()
        assert {"rank": 0, "code": -15} in agent.reports()
        assert_gone([pid])


def test_a_launcher_that_does_not_read_can_still_give_orders(tmp_path):
    # More than all pipes and the agent itself take.
    floods = "import os, sys\nopen('there', 'w').close()\nwhile True: print('x' * 1000)"
    with Agent() as agent:
        agent.start(floods, directory=tmp_path)
        assert agent.report()["text"] == "x" * 1000
        agent.order("end", signum=signal.SIGTERM, grace_secs=60)
        reports = agent.reports()
    assert {"rank": 0, "code": -15} in reports
    assert reports[-1]["done"]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([b"a\nb", b"c\n", b""], [b"a", b"bc"]),
        ([b"a", b""], [b"a"]),
        ([b"\n\n", b""], [b"", b""]),
        ([b"a\r\nb\r\n", b""], [b"a", b"b"]),
        ([b"10%\r20%\r", b"30%\r", b"done\n", b""], [b"20%", b"30%", b"done"]),
        ([b"10%\r20%", b"\n", b""], [b"20%"]),
        ([b"x" * 70000, b"y\n", b""], [b"x" * 70000, b"y"]),
        ([b""], []),
    ],
)
def test_output_is_cut_into_lines(parts, lines):
    stream = _Stream(0, 1)
    assert [line for part in parts for line in stream.lines(part)] == lines


def until_done(agent):
    """Return its reports until all processes of this round have ended."""
    found = []
    while not found or "done" not in found[-1]:
        found.append(agent.report())
    return found


def test_one_that_stays_runs_processes_again(tmp_path):
    with Agent() as agent:
        agent.order("stay")
        agent.order("reserve", host="127.0.0.1", count=1)
        (first,) = agent.report()["ports"]
        agent.start("print('one')", f"import os; {BACKGROUND.format(code='import time; time.sleep(1000)')}")
        reports = until_done(agent)
        assert {"rank": 0, "stream": 1, "text": "one"} in reports
        # What a process has left behind is ended before the next round.
        assert len(reports[-1]["left"]) == 1
        # An order to end that comes too late is not for the next round.
        agent.order("end", signum=15, grace_secs=0.0)
        agent.order("reserve", host="127.0.0.1", count=2)
        assert len(agent.report()["ports"]) == 2
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("", first))
            free.listen()
        agent.start("import time; time.sleep(0.3); print('two')")
        assert until_done(agent)[:2] == [{"rank": 0, "stream": 1, "text": "two"}, {"rank": 0, "code": 0}]
    assert agent.process.returncode == 0


def script(path, text):
    path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path)]


def forked(agent, *commands):
    processes = [
        {"rank": rank, "command": command, "environment": {"PYTHONPATH": str(ROOT)}}
        for rank, command in enumerate(commands)
    ]
    agent.order("start", processes=processes, directory="/")


def preloading(agent, *modules):
    agent.order("stay")
    environment = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    agent.order("preload", executable=sys.executable, environment=environment, modules=modules)


def test_processes_are_forked_from_one_that_has_imported_modules(tmp_path):
    says = script(tmp_path / "says.py", "import os, sys; print('this' in sys.modules, os.getppid()); sys.exit(4)")
    with Agent() as agent:
        preloading(agent, "this")
        parents = set()
        for _ in range(2):
            forked(agent, says, says)
            reports = until_done(agent)
            said = [report["text"].split() for report in reports if "text" in report]
            assert [is_loaded for is_loaded, _ in said] == ["True", "True"]
            parents |= {int(parent) for _, parent in said}
            assert sorted(report["rank"] for report in reports if report.get("code") == 4) == [0, 1]
            assert reports[-1] == {"done": True, "left": []}
        (server,) = parents
        assert psutil.pid_exists(server)
    assert_gone([server])


def test_the_end_of_the_fork_server_is_told(tmp_path):
    waits = script(tmp_path / "waits.py", "import os, time; print(os.getppid(), os.getpid()); time.sleep(1000)")
    with Agent() as agent:
        preloading(agent, "time")
        forked(agent, waits)
        server, pid = map(int, agent.report()["text"].split())
        os.kill(server, signal.SIGKILL)
        reports = until_done(agent)
        assert reports[0] == {"rank": 0, "failed": "its fork server ended: it said nothing"}
        assert_gone([pid])
        # The next round has another.
        forked(agent, script(tmp_path / "then.py", "import os; print(os.getppid())"))
        assert int(until_done(agent)[0]["text"]) not in (server, agent.process.pid)


def test_a_module_that_is_missing_fails_all(tmp_path):
    with Agent() as agent:
        preloading(agent, "no_such_module")
        forked(agent, script(tmp_path / "never.py", ""))
        reports = until_done(agent)
    assert reports[0]["rank"] == 0
    assert reports[0]["failed"].endswith("ModuleNotFoundError: No module named 'no_such_module'")


@pytest.mark.parametrize("is_ready", [False, True])
def test_an_order_to_end_reaches_forks(tmp_path, is_ready):
    waits = script(tmp_path / "waits.py", "import time; print('here'); time.sleep(1000)")
    with Agent() as agent:
        preloading(agent, "time")
        forked(agent, waits)
        if is_ready:
            assert agent.report()["text"] == "here"
        agent.order("end", signum=signal.SIGTERM, grace_secs=30.0)
        reports = until_done(agent)
    # The order to end may find the process there already.
    assert {"rank": 0, "code": -15} in reports


def test_a_directory_in_memory_ends_with_the_agent(tmp_path):
    with Agent() as first:
        first.order("keep_memory", directory=str(tmp_path / "tpack-memory-first"))
        first.order("reserve", host="", count=0)
        assert first.report() == {"ports": []}
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(60)
    (tmp_path / "tpack-memory-first" / "checkpoint").touch()
    (tmp_path / "others-memory").mkdir()
    with Agent() as second:
        second.order("keep_memory", directory=str(tmp_path / "tpack-memory-second"))
        second.order("reserve", host="", count=0)
        second.report()
        # What an agent that was killed has left is gone.
        assert sorted(os.listdir(tmp_path)) == ["others-memory", "tpack-memory-second"]
        with Agent() as third:
            third.order("keep_memory", directory=str(tmp_path / "tpack-memory-third"))
            third.order("reserve", host="", count=0)
            third.report()
            assert sorted(os.listdir(tmp_path)) == ["others-memory", "tpack-memory-second", "tpack-memory-third"]
    assert os.listdir(tmp_path) == ["others-memory"]
