"""What a process of a cluster knows of itself."""

import json

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.utils.tf_config import ClusterTask

CLUSTER = {"chief": ("a:1",), "worker": ("b:1", "b:2"), "ps": ("c:1",)}


@pytest.mark.parametrize(
    ("job", "index", "rank", "address", "text"),
    [
        ("chief", 0, 0, "a:1", "worker 0 of a cluster of 3 workers and 1 ps at a:1"),
        ("worker", 1, 2, "b:2", "worker 2 of a cluster of 3 workers and 1 ps at b:2"),
        ("ps", 0, None, "c:1", "ps 0 of a cluster of 3 workers and 1 ps at c:1"),
        ("evaluator", 0, None, None, "evaluator 0 of a cluster of 3 workers and 1 ps, as nothing"),
    ],
)
def test_a_member_knows_its_place(job, index, rank, address, text):
    member = ClusterMember(CLUSTER, job, index)
    assert (member.rank, member.is_chief, member.address, member.is_alone) == (rank, rank == 0, address, False)
    assert (member.workers, member.num_workers) == (("a:1", "b:1", "b:2"), 3)
    assert text in str(member)
    told = json.loads(member.tf_config())
    again = ClusterTask(told["cluster"], told["task"]["type"], told["task"]["index"])
    assert (again.cluster, again.job, again.index) == (CLUSTER, job, index)


@pytest.mark.parametrize("cluster", [{}, {"worker": ("a:1",)}])
def test_one_process_is_alone_and_the_chief(cluster):
    member = ClusterMember(cluster)
    assert (member.is_alone, member.is_chief, member.rank, member.num_workers) == (True, True, 0, 1)
    assert str(member) == "this process is the only one, as nothing says"


def test_gpus_of_a_machine_are_dealt_out():
    def dealt(num_visible, **options):
        return [ClusterMember(CLUSTER, local_rank=rank, local_size=2, **options).gpus(num_visible) for rank in (0, 1)]

    assert dealt(4) == [(0, 1), (2, 3)]
    assert dealt(0) == [(), ()]
    assert dealt(1, has_own_gpus=True) == [(0,), (0,)]
    assert ClusterMember().gpus(3) == (0, 1, 2)
    with pytest.raises(ConfigError, match="3 GPUs are visible to each of the 2 processes .* CUDA_VISIBLE_DEVICES"):
        dealt(3)
    with pytest.raises(ConfigError, match="num_visible=-1"):
        ClusterMember().gpus(-1)
