import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.parameter_server import ParameterServerBuilder, ServerPlacement, SharingOptions
from tpack.multi_worker.staleness import Progress
from tpack.tfutils.dependency import ancestors

MEMBER = ClusterMember({"worker": ("a:1",), "ps": ("b:1", "c:1")})


def lies_on(variable):
    return tf.DeviceSpec.from_string(variable.device).task


def test_variables_go_to_the_server_with_the_fewest_bytes_and_local_ones_nowhere():
    placement = ServerPlacement(MEMBER, "run")
    with tf.Graph().as_default(), placement.scope(), placement.scope():
        large = tf.get_variable("large", [100], use_resource=True)
        small = [tf.get_variable(f"small{n}", [30], use_resource=True) for n in range(3)]
        last = tf.get_variable("last", [], use_resource=True)
        local = tf.get_variable("local", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    assert [lies_on(each) for each in (large, *small, last)] == [0, 1, 1, 1, 1]
    assert placement.load.sizes == [400, 364]
    assert large.op.get_attr("container") == b"run"
    assert placement.is_shared(large)
    assert not placement.is_shared(local)
    assert not local.device


def test_what_comes_later_is_placed_by_its_name_alone():
    found = []
    for bytes_before in (0, 1000):
        placement = ServerPlacement(MEMBER, "run")
        placement.take(bytes_before)
        placement.settle()
        with tf.Graph().as_default(), placement.scope():
            found.append([lies_on(tf.get_variable(f"later{n}", [], use_resource=True)) for n in range(8)])
    assert found[0] == found[1]
    assert set(found[0]) == {0, 1}


def test_a_placement_wants_a_server_and_options_a_known_device():
    with pytest.raises(ConfigError, match="got no parameter server"):
        ServerPlacement(ClusterMember({"worker": ("a:1", "b:1")}), "run")
    with pytest.raises(ConfigError, match="caching_device"):
        SharingOptions(caching_device="disk")


def order_of_update(index, progress=None):
    """Build a worker's step and an update; tell whether it waits for all gradients, and each release for it."""
    member = ClusterMember({"worker": ("a:1", "b:1"), "ps": ("c:1",)}, "worker", index)
    made = {}
    with tf.Graph().as_default() as graph:
        builder = ParameterServerBuilder(1, ServerPlacement(member, "run"), stop_flag=StopFlag(), progress=progress)

        def gradients():
            weight = tf.get_variable("weight", [2], use_resource=True)
            state = tf.get_variable("state", [], trainable=False, use_resource=True)
            made["needed"], made["update"] = (state.assign_add(1.0, read_value=False) for _ in range(2))
            with tf.control_dependencies([made["needed"]]):
                return [(weight * state, weight)]

        builder.build(gradients, lambda: tf.train.GradientDescentOptimizer(0.1))
        builder.order_updates(tf.group(made["needed"], made["update"]))
        before = {op.type for op in ancestors([made["update"]])}
        released = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2" and "release" in op.name]
        assert not any("Queue" in op.type for op in ancestors([made["needed"]]))
        is_last = {"QueueDequeueV2", "ResourceApplyGradientDescent"} <= before
        return is_last, [made["update"] in ancestors([op]) for op in released]


def test_worker_0_updates_what_all_have_read_before_it_releases_them():
    assert order_of_update(0) == (True, [True])


def test_updates_of_other_workers_and_without_synchronisation_have_no_order():
    assert order_of_update(1) == (False, [])
    assert order_of_update(0, Progress(0, 2)) == (False, [])
