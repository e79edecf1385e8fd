import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.adasum_oracle import adasum
from tests.helpers.simulated_workers import exchanged, first_of_equal, sent_by_one
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker.adasum_exchange import AdasumBucket, densified, owners_of
from tpack.multi_worker.all_reduce import Arrivals, Exchange, all_reduce_between_workers
from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.sharded_builder import MultiWorkerShardedBuilder
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp

PAIR = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 0, "run")
ADASUM = Exchange(op="adasum")


@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_all_workers_get_the_bits_of_the_tree_of_ranks(session8, rng, workers, op):
    shapes = [(3, 7), (1000,), (), (0, 2), (163,)]
    grads = [[rng.normal(size=shape) for shape in shapes] for _ in range(workers)]
    got = exchanged(grads, Exchange(op="adasum", bucket_bytes=1600), op)
    for _ in range(2):
        for each, all_of in zip(first_of_equal(session8.run(got)), zip(*grads, strict=True), strict=True):
            np.testing.assert_allclose(each, adasum(all_of), rtol=1e-12)


def test_parallel_orthogonal_equal_and_zero_gradients_are_exact(session8):
    base, zero = np.array([1.0, -2.0, 0.5]), np.zeros(3)
    first = [base, np.array([4.0, 0.0, 0.0]), base, base, zero]
    second = [2 * base, np.array([0.0, -3.0, 2.0]), base, zero, zero]
    wanted = [1.5 * base, [4.0, -3.0, 2.0], base, base, zero]
    there, back = ([first, second], [second, first])
    for grads in (there, back):
        got = first_of_equal(session8.run(exchanged(grads, ADASUM)))
        assert all(np.array_equal(*pair) for pair in zip(got, wanted, strict=True))


def test_gradients_of_16_bits_on_the_wire_are_combined_in_32(session8):
    grads = [[np.full(4000, size, "float32")] for size in (64.0, 64.0, 128.0)]
    got = first_of_equal(session8.run(exchanged(grads, Exchange("float16", op="adasum"))))
    assert got[0].dtype == np.float32
    assert np.array_equal(got[0], np.full(4000, 96.0))


def test_sparse_gradients_are_exchanged_dense(session8):
    grads = [
        [tf.IndexedSlices(tf.constant(rows), tf.constant(indices), tf.constant([3, 2]))]
        for rows, indices in [([[1.0, 0.0], [1.0, 0.0]], [1, 1]), ([[0.0, 5.0]], [2])]
    ]
    assert np.array_equal(first_of_equal(session8.run(exchanged(grads, ADASUM)))[0], [[0, 0], [2, 0], [0, 5]])


def test_owners_share_the_bytes_of_an_exchange_in_parts(graph):
    shapes = [[100], [100], [50], [50], [50], [50]]
    assert owners_of([tf.zeros(shape) for shape in shapes], 4) == [0, 1, 2, 3, 2, 3]
    found = [sent_by_one(4, shapes, ADASUM, rank) for rank in range(4)]
    assert found == [(2 * 3, 2 * 3 * 4 * 100)] * 4
    # A worker that owns nothing sends its gradient to the owner alone.
    assert [sent_by_one(3, [[7]], ADASUM, rank) for rank in range(3)] == [(2, 56), (1, 28), (1, 28)]


def test_arrivals_are_noted_by_owners_and_others(session8):
    noted, results = [], []
    for rank in range(3):
        group = WorkerGroup(["/job:localhost/task:0"] * 3, rank, "run")

        def note(group, arrived):
            noted.append((group.rank, len(arrived)))
            return []

        bucket = AdasumBucket(group, "name", [1], lambda dtype: dtype, is_copied=False, note_arrived=note)
        results.append(bucket.reduce([tf.constant([2.0])]))
    assert noted == [(0, 3), (1, 3), (2, 3)]
    assert session8.run(results) == [[[2.0]]] * 3


def test_a_worker_finds_out_for_whom_it_waits(session8):
    """Worker 2 is not there: the owner misses it, and the other one, which owns nothing, all but itself."""
    arrivals, results = Arrivals(), []
    for rank in range(2):
        group = WorkerGroup(["/job:localhost/task:0"] * 3, rank, "run")
        how = Exchange(op="adasum", arrivals=arrivals if rank == 0 else None)
        results += all_reduce_between_workers(group, [tf.constant([1.0])], exchange=how)
    session8.run(tf.local_variables_initializer())
    with pytest.raises(tf.errors.DeadlineExceededError):
        session8.run(results, options=tf.RunOptions(timeout_in_ms=2000))
    assert [arrivals.missing(session8) for _ in range(2)] == [[], [2]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tf.zeros([2], tf.int32), "all_reduce_between_workers got .* of int32: expected a floating-point type"),
        (
            lambda: tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([0])),
            "got the IndexedSlices .* expected a known shape, since Adasum makes them dense",
        ),
    ],
    ids=["integer", "open"],
)
def test_what_cannot_be_combined_is_an_error(graph, make, words):
    grads = [make()]
    count = len(graph.get_operations())
    with pytest.raises(ReductionError, match=words):
        all_reduce_between_workers(PAIR, grads, ReduceOp.SUM, exchange=ADASUM)
    with pytest.raises(ReductionError, match=words):
        densified(PAIR, grads)
    assert len(graph.get_operations()) == count


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exchange(op="adasum", codec=Int8()), 'codec=an Int8: expected None with op="adasum", which needs'),
        (lambda: Exchange(op="adasum", levels=2), 'levels=2: expected None with op="adasum"'),
    ],
    ids=["codec", "levels"],
)
def test_what_does_not_go_together_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def _grads():
    return [(weight * 2.0, weight) for weight in (tf.get_variable(name, [3]) for name in "abc")]


def test_divided_optimizer_state_is_refused(graph):
    builder = MultiWorkerShardedBuilder(1, PAIR, exchange=ADASUM)
    with pytest.raises(ConfigError, match="Exchange got op='adasum' with shard_optimizer=True: expected None"):
        builder.build(_grads, lambda: tf.train.GradientDescentOptimizer(0.1))


@pytest.mark.parametrize("average", [True, False])
def test_the_stop_flag_is_added(session8, average):
    flags, results = [StopFlag(), StopFlag(), StopFlag()], []
    for rank, flag in enumerate(flags):
        group = WorkerGroup(["/job:localhost/task:0"] * 3, rank, "run")
        builder = MultiWorkerReplicatedBuilder(1, group, average=average, exchange=ADASUM, stop_flag=flag)
        with tf.variable_scope(f"worker{rank}"):
            results += builder._reduce([[tf.constant([1.0])]], ["w"])
    session8.run(tf.local_variables_initializer())
    flags[0].set(session8, StopFlag.STOP)
    flags[2].set(session8, StopFlag.SIGNAL)
    totals, reduced = session8.run([[flag.total for flag in flags], results])
    assert totals == [StopFlag.STOP + StopFlag.SIGNAL] * 3
    assert reduced == [[1.0]] * 3


def test_workers_train_alike_and_stop_together(tmp_path):
    found = values_of(run_workers("tests.helpers.encoded_training.adasum", 2, tmp_path))
    one, other = (worker["whole"] for worker in found)
    assert all(np.array_equal(one[name], other[name]) for name in ("w", "b", "table"))
    assert [worker["steps of the stopped one"] for worker in found] == [4, 4]
    assert not np.allclose(one["w"], found[0]["plain"]["w"], atol=1e-4)
