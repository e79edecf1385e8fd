import numpy as np
import pytest

from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.servers import start_server, task_device


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of two workers has seen of the servers."""
    return values_of(run_workers("tests.helpers.exchange_scenarios.servers", 2, tmp_path_factory.mktemp("servers")))


@pytest.mark.parametrize("name", ["copies", "again"])
def test_variables_are_copied_from_one_worker_and_begin_without_a_value(found, name):
    for rank, worker in enumerate(found):
        assert worker[name]["unset"] == [False, False]
        assert np.array_equal(worker[name]["copied"], [[1.0, 1.0], [2.0, 2.0]])
        assert worker[name]["device"] == f"/job:worker/task:{rank}"


def test_a_copy_of_variables_of_other_names_fails(found):
    chief, other = (worker["copies"]["other names"] for worker in found)
    assert "worker 1 copies variables of other names: others" in chief
    assert other.startswith("nothing")


def test_servers_are_reached_at_their_address_only(found):
    for worker in found:
        assert worker["server"]["there"]
        assert not worker["server"]["elsewhere"]


def test_a_process_has_one_server(found):
    server = found[0]["server"]
    assert server["same"]
    assert server["devices"] == ["/job:worker/task:0", "/job:worker/task:1"]
    assert "start_server got num_cpu_devices=9: expected at most" in server["more devices"]
    assert "ClusterError: worker 0 cannot start its TensorFlow server at " in server["port in use"]
    assert "cannot be used (Address already in use)" in server["port in use"]


def test_tasks_are_named_by_rank():
    member = ClusterMember({"chief": ("a:1",), "worker": ("b:1", "c:1"), "ps": ("d:1",)}, "ps")
    assert [task_device(member, rank) for rank in range(3)] == [
        "/job:chief/task:0",
        "/job:worker/task:0",
        "/job:worker/task:1",
    ]
    assert task_device(member) == "/job:ps/task:0"
    with pytest.raises(ConfigError, match="rank"):
        task_device(member, 3)


@pytest.mark.parametrize(
    "member", [ClusterMember(), ClusterMember({"worker": ("a:1",)}, "evaluator")], ids=["alone", "evaluator"]
)
def test_a_server_is_for_those_that_others_reach(member):
    with pytest.raises(ConfigError, match="expected a worker or a parameter server with an address"):
        start_server(member)


def test_a_session_connects_to_the_workers_alone_that_its_graph_meets(tmp_path):
    """It would wait for a server of each of them, with four connections to each."""
    job = {"arguments": {"size": 1024}, "limit_secs": 100.0}
    for worker in values_of(run_workers("tests.helpers.exchange_scenarios.few_of_many", 2, tmp_path, **job)):
        assert np.array_equal(worker["total"], [[3.0]])
        assert {name.partition("/device")[0] for name in worker["devices"]} == {
            "/job:worker/replica:0/task:0",
            "/job:worker/replica:0/task:1",
        }
