"""The launcher's side of an agent."""

import os
import select
import sys

from tpack.cli.launcher.agent_client import AgentLink, ReachedMachines
from tpack.cli.launcher.plan import Host


def reports(link):
    """Return all reports until the agent has gone."""
    found = []
    while not link.is_gone:
        assert select.select([link.reports], [], [], 60)[0]
        found += link.receive()
    return found


def test_an_agent_here_does_what_it_is_told():
    link = AgentLink(Host())
    link.order("reserve", host="127.0.0.1", count=1)
    link.order("start", processes=[], directory="/")
    ports, done = reports(link)
    assert len(ports["ports"]) == 1
    assert done == {"done": True, "left": []}
    # One that has gone is told nothing, and that is no error.
    link.order("end", signum=15, grace_secs=1)
    assert link.close(60) == 0


def script(tmp_path, text):
    path = tmp_path / "ssh"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_an_agent_elsewhere_is_started_by_a_command(tmp_path):
    link = AgentLink(Host("b", 1, "me@b"), script(tmp_path, 'printf "%s|" "$@" >&2; echo hello; exit 3') + " -p 22")
    assert reports(link) == []
    link.drain_errors()
    assert link.close(60) == 3
    hello, said = link.last_lines
    assert hello == "hello"
    option, port, login, command, rest = said.split("|")
    assert (option, port, login, rest) == ("-p", "22", "me@b", "")
    assert command.startswith(f"exec {sys.executable} -c '")


def test_one_that_does_not_answer_is_given_up(tmp_path):
    link = AgentLink(Host("b", 1, "b"), script(tmp_path, "exec sleep 1000"))
    link.give_up()
    assert link.is_gone
    assert link.close(60) == -9


def test_one_that_does_not_end_is_killed(tmp_path):
    link = AgentLink(Host("b", 1, "b"), script(tmp_path, "exec sleep 1000"))
    assert link.close(0.01) == -9


def test_orders_wait_until_they_are_taken(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    link = AgentLink(Host("b", 1, "b"), script(tmp_path, f"cat {tmp_path}/fifo; wc -c >&2"))
    # More than a pipe takes; it is read when somebody has written to the other one.
    link.order("first", text="x" * (1 << 20))
    assert not link.flush()
    (tmp_path / "fifo").write_text("")
    while not link.flush():
        pass
    link._process.stdin.close()
    assert reports(link) == []
    link.drain_errors()
    assert int(link.last_lines[0]) > 1 << 20
    link.close(60)


def test_an_agent_stays_for_the_next_run_of_a_job():
    machines = ReachedMachines(keeps_agents=True)
    first = machines.connect(Host())
    first.order("start", processes=[], directory="/")
    while not first.has_ended:
        assert select.select([first.reports], [], [], 60)[0]
        first.is_done = any("done" in report for report in first.receive())
    assert not first.is_gone
    machines.release(first, 60)
    second = machines.connect(Host())
    assert second is first
    assert not second.is_done
    # One that has not ended everything is not used again.
    machines.release(second, 60)
    third = machines.connect(Host())
    assert third is not first
    assert third.close(60) == 0


def test_a_machine_is_asked_whether_it_answers(tmp_path):
    machines = ReachedMachines(script(tmp_path, "exit 1"), keeps_agents=True)
    host = Host("b", None, "b")
    assert not machines.answers(host)
    machines._kept[host]._process.wait(60)
    assert not machines.answers(host)
    # It is not asked again at once.
    assert not machines.answers(host)
    assert not machines._kept

    machines = ReachedMachines(keeps_agents=True)
    assert not machines.answers(Host())
    assert select.select([machines._kept[Host()].reports], [], [], 60)[0]
    assert machines.answers(Host())
    link = machines.connect(Host())
    # It is in use, and answers therefore.
    assert machines.answers(Host())
    link.order("reserve", host="127.0.0.1", count=1)
    assert select.select([link.reports], [], [], 60)[0]
    assert [len(report["ports"]) for report in link.receive()] == [1]
    machines.release(link, 60)
