import tensorflow.compat.v1 as tf

from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_queues import apply_once
from tpack.multi_worker.parameter_server import ServerPlacement


def queues_of(index):
    """Build the step of a worker; return {queue: what is done to it}, and the updates of variables."""
    member = ClusterMember({"worker": ("a:1", "b:1", "c:1"), "ps": ("d:1",)}, "worker", index)
    with tf.Graph().as_default() as graph, ServerPlacement(member, "run").scope():
        dense = tf.get_variable("dense", [2], use_resource=True)
        table = tf.get_variable("table", [5, 2], use_resource=True)
        pairs = [(tf.ones([2]), dense), (tf.IndexedSlices(tf.ones([3, 2]), tf.constant([0, 1, 1])), table)]
        apply_once(pairs, tf.train.GradientDescentOptimizer(0.1), member, StopFlag())
        done = {}
        for op in graph.get_operations():
            if op.type in ("QueueEnqueueV2", "QueueDequeueV2"):
                assert "/job:ps/" in op.inputs[0].op.device
                done[op.inputs[0].op.get_attr("shared_name").decode()] = op.type[5:-2]
        updates = sorted(op.type for op in graph.get_operations() if "Apply" in op.type or "ScatterAdd" in op.type)
    return done, updates


def test_worker_0_takes_what_the_others_give_and_they_take_what_it_gives():
    taken, updates = queues_of(0)
    assert len(updates) == 2
    both = {name: what for rank in (1, 2) for name, what in queues_of(rank)[0].items()}
    assert taken.keys() == both.keys()
    assert len(taken) == 2 * (2 + 2)
    assert all({taken[name], both[name]} == {"Enqueue", "Dequeue"} for name in taken)
    assert {name for name in taken if taken[name] == "Enqueue"} == {"token/worker1", "token/worker2"}
    assert queues_of(1)[1] == []
