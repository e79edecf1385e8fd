import tensorflow.compat.v1 as tf

from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.parameter_server import ServerPlacement
from tpack.multi_worker.ps_replicated import ReplicatedParameterServerBuilder


def build(index):
    """Build two towers of a worker; return the builder, its result and the names of global variables."""
    member = ClusterMember({"worker": ("a:1", "b:1"), "ps": ("c:1", "d:1")}, "worker", index)
    builder = ReplicatedParameterServerBuilder(2, ServerPlacement(member, "run"), stop_flag=StopFlag())

    def grad_fn():
        w = tf.get_variable("w", [3])
        b = tf.get_variable("b", [2])
        return [(tf.ones([3]), w), (tf.ones([2]), b)]

    optimizer = tf.train.AdamOptimizer(0.1)
    with tf.Graph().as_default():
        result = builder.build(grad_fn, lambda: optimizer)
        return builder, result, {v.op.name for v in tf.global_variables()}


def test_the_chief_has_the_state_under_its_own_names_and_shadows_lie_on_servers():
    builder, result, names = build(0)
    state = {"beta1_power", "beta2_power", "w/Adam", "w/Adam_1", "b/Adam", "b/Adam_1"}
    assert names == {"w", "b"} | state
    assert {v.op.name for v in builder.shadows} == {f"shadow/{name}" for name in names}
    assert {tf.DeviceSpec.from_string(v.device).job for v in builder.shadows} == {"ps"}
    assert {tf.DeviceSpec.from_string(v.device).task for v in builder.shadows} == {0, 1}
    assert len(result.sync_ops) == 2
    assert builder.push is not None


def test_another_worker_has_no_state_and_pushes_nothing():
    builder, result, names = build(1)
    assert names == {"w", "b"}
    assert {v.op.name for v in builder.shadows} == {"shadow/w", "shadow/b"}
    assert (builder.push, len(result.sync_ops)) == (None, 1)
