"""The place of a process, from arguments, variables and a rendezvous."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.errors import ClusterError, ConfigError, WrongTypeError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.utils import addresses
from tpack.utils.launch_env import ClusterRank
from tpack.utils.tf_config import ClusterTask

CLUSTER = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'


def test_a_process_of_which_nothing_is_said_is_alone():
    assert resolve_cluster(environment={}) == ClusterMember(source="the environment")
    alone = resolve_cluster(environment={"RANK": "0", "WORLD_SIZE": "1"})
    assert (alone.is_alone, alone.source) == (True, "RANK and WORLD_SIZE")


def test_one_line_says_what_was_found_and_where(caplog):
    with caplog.at_level("INFO", logger="tpack"):
        resolve_cluster(environment={"TF_CONFIG": CLUSTER})
        resolve_cluster(environment={})
    assert [record.getMessage() for record in caplog.records] == [
        "Cluster: this process is worker 0 of a cluster of 2 workers at a:1, as TF_CONFIG says.",
        "Cluster: this process is the only one, as the environment says.",
    ]


def test_arguments_count_before_the_environment():
    member = resolve_cluster(
        ClusterTask({"worker": ["x:1", "y:1", "y:2"]}, "worker", 2), environment={"TF_CONFIG": CLUSTER}
    )
    assert (member.workers, member.rank, member.source) == (("x:1", "y:1", "y:2"), 2, "its arguments")
    assert (member.local_rank, member.local_size) == (1, 2)
    assert resolve_cluster(ClusterRank(0, 1), environment={"TF_CONFIG": CLUSTER}).is_alone


def test_all_workers_of_a_listed_cluster_know_where_worker_0_listens_for_them(monkeypatch):
    workers = [f"10.0.0.{number}:5000" for number in range(1, 4)]
    tasks = [ClusterTask({"worker": workers, "ps": ["10.0.0.9:5000"]}, "worker", index) for index in range(3)]
    tasks.append(ClusterTask({"worker": workers, "ps": ["10.0.0.9:5000"]}, "ps", 0))
    secret = {"TPACK_CLUSTER_SECRET": "a secret of 24 characters"}
    points = {resolve_cluster(task, environment=secret).rendezvous for task in tasks}
    assert len(points) == 1
    point = points.pop()
    host, port = point.master.split(":")
    assert (host, point.size, point.secret) == ("10.0.0.1", 3, secret["TPACK_CLUSTER_SECRET"])
    assert 15000 <= int(port) < 30000
    # What a launcher has reserved comes first, and each of its attempts is told from the others.
    launched = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "7", "TPACK_LAUNCH_ID": "x", "TPACK_RESTART_COUNT": "1"}
    point = resolve_cluster(tasks[1], environment=launched).rendezvous
    assert (point.master, point.secret) == ("10.0.0.1:7", None)
    assert point.token == f"tpack launch x, attempt 1 {' '.join(workers)}"
    # On one machine, the port may be none that a worker has.
    monkeypatch.setattr(addresses, "_NUM_PORTS", 2)
    for taken, free in ((15000, 15001), (15001, 15000)):
        cluster = ClusterTask({"worker": ["127.0.0.1:7", f"127.0.0.1:{taken}"]}, "worker", 0)
        assert resolve_cluster(cluster, environment={}).rendezvous.master == f"127.0.0.1:{free}"
    with pytest.raises(ConfigError, match="TPACK_CLUSTER_SECRET has 5 characters"):
        resolve_cluster(tasks[0], environment={"TPACK_CLUSTER_SECRET": "short"})
    assert resolve_cluster(ClusterTask({"worker": ["x:1"]}, "worker", 0), environment={}).rendezvous is None


def test_an_evaluator_has_no_address():
    task = ClusterTask({"chief": ["x:1"]}, "evaluator", 0)
    member = resolve_cluster(task, environment={})
    assert (member.address, member.rank, member.is_chief, member.local_size) == (None, None, False, 1)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "worker 1 of 2, .* MASTER_ADDR or MASTER_PORT is missing"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE got '2' and RANK is missing: expected both; or neither"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK got '2'"),
    ],
)
def test_what_is_missing_or_wrong_is_shown(environment, message):
    with pytest.raises(ConfigError, match=message):
        resolve_cluster(environment=environment)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((5,), {}, WrongTypeError),
        ((), {"timeout_secs": 0}, ConfigError),
        ((), {"timeout_secs": float("nan")}, ConfigError),
        ((), {"environment": "RANK=1"}, WrongTypeError),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error):
    with pytest.raises(error, match="resolve_cluster"):
        resolve_cluster(*arguments, **options)


def test_a_short_secret_is_shown():
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    with pytest.raises(ConfigError, match="TPACK_CLUSTER_SECRET has 3 characters"):
        resolve_cluster(environment={**environment, "TPACK_CLUSTER_SECRET": "abc"})


def test_the_time_limit_is_that_of_the_meeting():
    with PortReservation() as reservation, pytest.raises(ClusterError, match=r"within 0\.2 s: worker 0 is missing"):
        resolve_cluster(ClusterRank(1, 2, f"127.0.0.1:{reservation.port}"), environment={}, timeout_secs=0.2)


# Answers with what it knows, and whether TensorFlow was loaded.
PROGRAM = """
import json, sys
from tpack.multi_worker.cluster.resolver import resolve_cluster
member = resolve_cluster(timeout_secs=60)
print(json.dumps([member.rank, member.local_rank, member.local_size, member.workers, member.address, member.source,
                  "tensorflow" in sys.modules]))
"""


@pytest.mark.parametrize(
    ("variables", "source"),
    [
        ({"RANK": "{}", "WORLD_SIZE": "3", "MASTER_ADDR": "localhost"}, "RANK and WORLD_SIZE"),
        (
            {"SLURM_PROCID": "{}", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "n1", "SLURM_JOB_ID": "1"},
            "Slurm (SLURM_PROCID and SLURM_STEP_NUM_TASKS)",
        ),
    ],
)
def test_processes_find_each_other(variables, source):
    with PortReservation() as reservation:
        processes = []
        for rank in range(3):
            told = {name: value.format(rank) for name, value in variables.items()}
            env = {**os.environ, **told, "MASTER_PORT": str(reservation.port), "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-c", PROGRAM]
            processes.append(
                subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        ended = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], ended
    found = [json.loads(output) for output, _ in ended]
    workers = found[0][3]
    assert len(set(workers)) == 3
    assert found == [[rank, rank, 3, workers, workers[rank], source, False] for rank in range(3)]
