import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.worker_group import WorkerGroup


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WorkerGroup(["/job:worker/task:0"], 1, "run"), "rank"),
        (lambda: WorkerGroup(["/job:worker/task:0"], 0, ""), "run"),
        (lambda: WorkerGroup(["", ""], 0, "run", [0]), r"machines=\(0,\): expected one for each of 2 workers"),
        (
            lambda: WorkerGroup.of_member(ClusterMember({"ps": ("a:1",), "worker": ("b:1",)}, "ps"), "run"),
            "expected a worker",
        ),
    ],
    ids=["rank", "run", "machines", "ps"],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_group_knows_its_tasks_and_the_others():
    member = ClusterMember({"worker": ("a:1", "b:1", "c:1")}, "worker", 1)
    group = WorkerGroup.of_member(member, "run")
    assert (group.rank, group.size, group.others) == (1, 3, (0, 2))
    assert [group.device(), group.device(2)] == ["/job:worker/task:1/device:CPU:0", "/job:worker/task:2/device:CPU:0"]


def test_workers_with_one_host_are_on_one_machine():
    member = ClusterMember({"chief": ("[::1]:1",), "worker": ("a:1", "[::1]:2", "a:2", "b:1")}, "worker", 1)
    assert WorkerGroup.of_member(member, "run").machines == (0, 1, 0, 1, 4)


def test_what_one_puts_another_takes(session8):
    one, other = (WorkerGroup(["/job:localhost/task:0"] * 2, rank, "run") for rank in range(2))
    sent = one.put("name", 1, [tf.constant([1.0, 2.0]), tf.constant(3)])
    taken = other.take("name", 0, [tf.float32, tf.int32], [tf.TensorShape([2]), tf.TensorShape([])])
    _, (values, count) = session8.run([sent, taken])
    assert np.array_equal(values, [1.0, 2.0])
    assert count == 3


@pytest.mark.parametrize(
    ("rank", "root", "place"),
    [
        (0, 0, (None, [4, 2, 1])),
        (4, 0, (0, [5])),
        (5, 0, (4, [])),
        (2, 0, (0, [3])),
        (1, 4, (0, [])),
        (4, 4, (None, [2, 0, 5])),
    ],
)
def test_a_tree_reaches_each_worker_once(rank, root, place):
    assert WorkerGroup(["/job:worker/task:0"] * 6, rank, "run").place_in_tree(root) == place
