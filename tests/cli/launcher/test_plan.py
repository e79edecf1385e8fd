"""Which processes a job has, where, and what they are told."""

import json

import pytest

from tpack.cli.launcher import plan as plan_module
from tpack.cli.launcher.plan import LONGEST_CLUSTER, Host, environments_of, make_plan, parse_hosts, place_workers
from tpack.errors import ConfigError
from tpack.utils.launch_env import read_launch_env

A, B = Host("a", 2, "a"), Host("b", 1, "me@b")


def test_hosts_are_read():
    assert parse_hosts("a:2, me@b") == (A, B)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--hosts got '': expected machines"),
        ("a:0", "--hosts got 'a:0'"),
        ("a,,b", "--hosts got ''"),
        ("-oProxyCommand=x", "--hosts got '-oProxyCommand=x'"),
        ("me@-x:4", "--hosts got 'me@-x:4'"),
        ("a:1,b:1,me@a:2", "--hosts got a more than once"),
        ("a,localhost", "--hosts got localhost, which is another machine on each"),
        ("127.0.0.1,a", "--hosts got 127.0.0.1, which"),
    ],
)
def test_hosts_that_cannot_be_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_hosts(text)


def test_one_machine_is_filled_after_the_other():
    assert place_workers((A, B), None) == (A, A, B)
    assert place_workers((A, B), 2) == (A, A)
    assert place_workers((Host(),), 3) == (Host(),) * 3
    assert place_workers((Host(),), None) == (Host(),)
    with pytest.raises(ConfigError, match="-n got 4: expected at most 3"):
        place_workers((A, B), 4)


def test_a_plan_numbers_workers_then_ps_then_the_evaluator():
    plan = make_plan((A, A, B), 3, True)
    assert [(each.rank, each.job, each.index, each.host.name, each.local_rank) for each in plan] == [
        (0, "chief", 0, "a", 0),
        (1, "worker", 0, "a", 1),
        (2, "worker", 1, "b", 0),
        (3, "ps", 0, "a", 2),
        (4, "ps", 1, "b", 1),
        (5, "ps", 2, "a", 3),
        (6, "evaluator", 0, "a", 4),
    ]
    assert [each.label for each in plan] == ["0", "1", "2", "3:ps", "4:ps", "5:ps", "6:evaluator"]
    assert [str(plan[2]), str(plan[4])] == ["rank 2 (worker 2 on b)", "rank 4 (ps 1 on b)"]
    assert [each.job for each in make_plan((A, A), 0, False)] == ["worker", "worker"]


def test_a_process_is_told_its_place():
    plan = make_plan((A, A, B), 1, False)
    ports = {0: 10, 1: 11, 2: 12, 3: 13}
    told = environments_of(plan, ports, 99)[2]
    task = json.loads(told.pop("TF_CONFIG"))
    assert task == {
        "cluster": {"chief": ["a:10"], "worker": ["a:11", "b:12"], "ps": ["a:13"]},
        "task": {"type": "worker", "index": 1},
    }
    assert told == {
        "RANK": "2",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "99",
    }


def test_a_plan_of_many_looks_at_each_process_once(monkeypatch):
    """Each process once listed all, for its number and for its environment."""
    seen = []

    def counted(host, port):
        seen.append(port)
        return f"{host}:{port}"

    monkeypatch.setattr(plan_module, "join_address", counted)
    hosts = [Host(f"node{n // 8}", 8, "node") for n in range(1024)]
    plan = make_plan(hosts, 4, True)
    assert [each.local_rank for each in plan[:1024]] == [*range(8)] * 128
    environments = environments_of(plan, {rank: rank + 1 for rank in range(1029)}, 1)
    assert sorted(seen) == list(range(1, 1029))
    assert {each["LOCAL_WORLD_SIZE"] for each in environments[40:1024]} == {"8"}
    assert [environments[rank]["LOCAL_WORLD_SIZE"] for rank in (0, 8, 40)] == ["10", "9", "8"]
    assert read_launch_env(environments[1000]).place.index == 999


def test_workers_alone_go_without_a_tf_config_that_no_variable_can_hold():
    plan = make_plan([Host("a-long-name.of-a-machine.example.com", 8, "node")] * 4096, 0, False)
    ports = {each.rank: 20000 for each in plan}
    environments = environments_of(plan, ports, 99)
    assert max(len(name) + len(value) for each in environments for name, value in each.items()) < 1 << 17
    place = read_launch_env(environments[4095]).place
    assert (place.rank, place.size, place.master) == (4095, 4096, "a-long-name.of-a-machine.example.com:99")
    assert "TF_CONFIG" in environments_of(plan[:1024], ports, 99)[0]


def test_other_jobs_cannot_go_without_it():
    plan = make_plan([Host("a-long-name.of-a-machine.example.com", 8, "node")] * 4096, 1, False)
    text = rf"a job of 4097 processes with --ps or --evaluator got a TF_CONFIG of \d+ .* at most {LONGEST_CLUSTER}"
    with pytest.raises(ConfigError, match=text):
        environments_of(plan, {each.rank: 20000 for each in plan}, 99)
