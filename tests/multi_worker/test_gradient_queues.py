import tensorflow.compat.v1 as tf

from tpack.multi_worker import gradient_queues
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


def test_gradients_of_many_workers_travel_together(monkeypatch):
    monkeypatch.setattr(gradient_queues, "MOST_APART", 2)
    taken, updates = queues_of(0)
    assert len(updates) == 2
    both = {name: what for rank in (1, 2) for name, what in queues_of(rank)[0].items()}
    assert taken.keys() == both.keys()
    assert len(taken) == 2 * (1 + 2)
    assert all({taken[name], both[name]} == {"Enqueue", "Dequeue"} for name in taken)


def test_the_graph_of_worker_0_grows_by_servers_and_not_by_variables():
    def size_of(workers, variables):
        cluster = {"worker": tuple(f"a{n}:1" for n in range(workers)), "ps": ("d:1", "e:1")}
        member = ClusterMember(cluster, "worker", 0)
        with tf.Graph().as_default() as graph, ServerPlacement(member, "run").scope():
            owned = [tf.get_variable(f"w{n}", [2], use_resource=True) for n in range(variables)]
            apply_once([(w * 2.0, w) for w in owned], tf.train.GradientDescentOptimizer(0.1), member, StopFlag())
            return sum("Queue" in op.type for op in graph.get_operations())

    few, many = size_of(32, 10), size_of(32, 40)
    # For each other worker two messages, a word and a token, and each is a queue and what is done to it.
    assert few == many == 31 * 2 * (2 + 2)
    assert size_of(64, 10) == 63 * 2 * (2 + 2)


def test_worker_0_takes_what_the_others_give_and_they_take_what_it_gives():
    taken, updates = queues_of(0)
    assert len(updates) == 2
    both = {name: what for rank in (1, 2) for name, what in queues_of(rank)[0].items()}
    assert taken.keys() == both.keys()
    assert len(taken) == 2 * (2 + 2)
    assert all({taken[name], both[name]} == {"Enqueue", "Dequeue"} for name in taken)
    assert {name for name in taken if taken[name] == "Enqueue"} == {"token/worker1", "token/worker2"}
    assert queues_of(1)[1] == []
