"""The schedule of a simulated step has the messages and bytes of the graph that the exchange builds."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.simulated_workers import sent_by_one
from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.codecs.base import Cast
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.sparsification import TopK
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.gradient_queues import apply_once
from tpack.multi_worker.scaling.schedule import (
    ELSEWHERE,
    SERVER,
    STOP_FLAG,
    WORKER,
    GradientSpec,
    Place,
    all_reduce_schedule,
    server_schedule,
    sharded_schedule,
    with_stop_flag,
)
from tpack.multi_worker.sharded_builder import MultiWorkerShardedBuilder
from tpack.multi_worker.worker_group import WorkerGroup

SHAPES = [[64, 300], [7], [1200, 900], [300, 200], [5], [], [129, 65], [3, 3, 64, 128]]
GRADIENTS = [GradientSpec(f"v{n}", tuple(shape)) for n, shape in enumerate(SHAPES)]
EXCHANGES = {
    "plain": Exchange(levels=1),
    "by itself": Exchange(),
    "two levels": Exchange(levels=2),
    "small buckets": Exchange(bucket_bytes=70_000, levels=1),
    "rounded": Exchange("bfloat16", levels=1),
    "wide sums": Exchange(levels=2, has_wide_sums=True),
    "int8": Exchange(codec=Int8()),
    "float16 codec": Exchange(codec=Cast("float16")),
    "one bit": Exchange(codec=OneBit(), bucket_bytes=100_000),
    "top k": Exchange(codec=TopK(0.01), levels=1),
    "power sgd": Exchange(codec=PowerSGD(2), levels=2),
    "adasum": Exchange(op="adasum"),
}


@pytest.mark.parametrize("exchange", list(EXCHANGES))
@pytest.mark.parametrize(("workers", "rank"), [(2, 0), (3, 2), (4, 1), (9, 0), (9, 8), (11, 0), (11, 10)])
def test_messages_and_bytes_are_those_of_the_graph(exchange, workers, rank):
    how = EXCHANGES[exchange]
    schedule = all_reduce_schedule(GRADIENTS, how, Place(workers, rank))
    assert (schedule.messages, schedule.sent_bytes) == sent_by_one(workers, SHAPES, how, rank)


@pytest.mark.parametrize("levels", [None, 2, "machines"])
def test_machines_are_groups_as_in_the_graph(levels):
    how = Exchange(levels=levels)
    schedule = all_reduce_schedule(GRADIENTS, how, Place(8, 5, per_machine=4))
    assert (schedule.messages, schedule.sent_bytes) == sent_by_one(8, SHAPES, how, 5, [0] * 4 + [1] * 4)
    shares = {hop.remote for course in schedule.courses for hop in course.hops}
    # Between machines all travels over the links, inside of them nothing; of two, two of three others are away.
    assert shares >= {None: {4 / 7}, 2: {0.0, 2 / 3}, "machines": {0.0, 1.0}}[levels]


def test_a_worker_calls_those_with_which_it_exchanges():
    large = [GradientSpec("v", (2**20,))]
    assert all_reduce_schedule(large, Exchange(levels=1), Place(16)).peers == 15
    assert all_reduce_schedule(large, Exchange(levels=2), Place(16)).peers == 6
    assert all_reduce_schedule(large, Exchange(), Place(1)).messages == 0


@pytest.mark.parametrize("rank", range(3))
def test_owners_get_gradients_and_send_values_as_in_the_graph(rank):
    shapes = {f"v{n}": shape for n, shape in enumerate(SHAPES)}

    def grads():
        weights = [tf.get_variable(name, shape) for name, shape in shapes.items()]
        return [(weight * 2.0, weight) for weight in weights]

    flag = StopFlag()
    with tf.Graph().as_default() as graph:
        group = WorkerGroup([f"/job:worker/task:{n}" for n in range(3)], rank, "run")
        exchange = Exchange("float16")
        builder = MultiWorkerShardedBuilder(1, group, exchange=exchange, stop_flag=flag)
        builder.build(grads, lambda: tf.train.MomentumOptimizer(0.1, 0.9))
        counted = _sent(graph)
    schedule = sharded_schedule(with_stop_flag(GRADIENTS), exchange, Place(3, rank))
    assert (schedule.messages, schedule.sent_bytes) == counted


def _sent(graph):
    puts = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2"]
    vectors = [each for op in puts for each in op.inputs if each.dtype != tf.resource]
    return len(puts), sum(int(each.shape.num_elements()) * each.dtype.size for each in vectors)


def test_servers_get_what_a_worker_sends_them_in_the_graph():
    cluster = {"worker": ("a:1", "b:2", "c:3"), "ps": ("d:4", "e:5")}
    with tf.Graph().as_default() as graph:
        pairs = []
        for n, shape in enumerate(SHAPES):
            with tf.device(f"/job:ps/task:{n % 2}"):
                weight = tf.get_variable(f"v{n}", shape, use_resource=True)
            pairs.append((weight * 2.0, weight))
        flag = StopFlag()
        apply_once(pairs, tf.train.GradientDescentOptimizer(0.1), ClusterMember(cluster, "worker", 1), flag)
        counted = _sent(graph)
    schedule = server_schedule(GRADIENTS, 3, 2)
    assert (schedule.messages, schedule.sent_bytes) == counted
    assert schedule.peers == 2
    # Each variable is fetched before the computation, by all workers.
    fetched = [hop for course in schedule.before for hop in course.hops]
    assert sum(hop.received_bytes for hop in fetched) == sum(each.size_bytes for each in GRADIENTS)
    assert {hop.sender for hop in fetched} == {f"{SERVER}0", f"{SERVER}1"}


def test_an_owner_receives_from_all_and_others_work_elsewhere():
    gradients = [GradientSpec("large", (1000,)), GradientSpec("small", (10,))]
    courses = sharded_schedule(gradients, Exchange(), Place(2)).courses
    own, others = ([(hop.sender, hop.receiver) for hop in course.hops] for course in courses)
    assert own == [(ELSEWHERE, WORKER), (WORKER, ELSEWHERE)]
    assert others == [(WORKER, ELSEWHERE), (ELSEWHERE, WORKER)]
    with pytest.raises(ConfigError, match="shard_optimizer got 2 trained variables: expected at least one"):
        sharded_schedule(gradients, Exchange(), Place(3))


def test_rows_of_all_workers_travel_to_all_as_in_the_graph():
    rows = GradientSpec("table", (20, 8), is_sparse=True)
    with tf.Graph().as_default() as graph:
        group = WorkerGroup([f"/job:worker/task:{n}" for n in range(4)], 0, "run")
        slices = tf.IndexedSlices(tf.zeros([20, 8]), tf.zeros([20], tf.int64), tf.constant([100, 8], tf.int64))
        all_reduce_between_workers(group, [slices])
        counted = _sent(graph)
    schedule = all_reduce_schedule([rows], Exchange(), Place(4))
    assert (schedule.messages, schedule.sent_bytes) == counted


def test_the_stop_flag_is_the_first_to_be_ready():
    late, early = GradientSpec("late", (3,), ready=0.9), GradientSpec("early", (3,), ready=0.4)
    assert [each.name for each in with_stop_flag([late, early])] == [STOP_FLAG, "early", "late"]
