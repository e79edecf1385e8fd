import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.exchange_scenarios import STEPS, gradients_of, rows_of
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Arrivals, Exchange, all_reduce_between_workers, copy_from_worker
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp

WORKERS = 3
ALONE = WorkerGroup(["/job:worker/task:0"], 0, "run")
PAIR = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 0, "run")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of three workers returns that has exchanged in several ways."""
    directory = tmp_path_factory.mktemp("exchange")
    return values_of(run_workers("tests.helpers.exchange_scenarios.exchange", WORKERS, directory))


@pytest.mark.parametrize(("name", "divisor", "tolerance"), [
    ("sum None", 1, 1e-6), ("mean None", WORKERS, 1e-6), ("mean bfloat16", WORKERS, 2e-2),
])  # fmt: skip
def test_each_worker_gets_the_sum_of_all(found, name, divisor, tolerance):
    for step in range(STEPS):
        wanted = [
            sum(gradients_of(rank, step, dtype)[n] for rank in range(WORKERS)) / divisor
            for dtype in ("float32", "float64")
            for n in range(6)
        ]
        *dense, _ = found[0][name][step]
        for got, want in zip(dense, wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, atol=tolerance)
        for other in found[1:]:
            assert all(np.array_equal(*pair) for pair in zip(dense, other[name][step][:-1], strict=True))


@pytest.mark.parametrize(("name", "divisor"), [("sum None", 1), ("mean None", WORKERS)])
def test_each_worker_gets_the_rows_of_all_by_rank(found, name, divisor):
    for step in range(STEPS):
        values, indices = zip(*map(rows_of, range(WORKERS)), strict=True)
        for worker in found:
            got_values, got_indices = worker[name][step][-1]
            np.testing.assert_allclose(got_values, np.concatenate(values) * (1 + step) / divisor, rtol=1e-6)
            assert np.array_equal(got_indices, np.concatenate(indices))


def tensors(*shapes, dtype="float32"):
    return [tf.zeros(shape, dtype) for shape in shapes]


def test_one_worker_keeps_its_gradients(graph):
    grads = tensors([3], [])
    assert all_reduce_between_workers(ALONE, grads) == grads
    assert copy_from_worker(ALONE, []).type == "NoOp"


@pytest.mark.parametrize(("workers", "direct_bytes", "wire_dtype"), [
    (2, 0, None), (2, 0, "bfloat16"), (3, 10**9, "bfloat16"), (4, 0, None), (4, 0, "bfloat16"),
])  # fmt: skip
def test_all_routes_give_all_workers_the_same_sums(session8, rng, monkeypatch, workers, direct_bytes, wire_dtype):
    """The graphs of all workers are parts of one graph here, and meet in the queues of one process."""
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    monkeypatch.setattr(gradient_buckets, "PIECE_BYTES", 300)
    shapes = [(3, 7), (1000,), (), (500, 2), (0, 2), (163,), (400,)]
    grads = [[rng.normal(size=shape).astype("float32") for shape in shapes] for _ in range(workers)]
    reduced = []
    for rank, own in enumerate(grads):
        group = WorkerGroup(["/job:localhost/task:0"] * workers, rank, "run")
        how = Exchange(wire_dtype, bucket_bytes=1600)
        reduced.append(all_reduce_between_workers(group, list(map(tf.constant, own)), exchange=how))
    for _ in range(2):
        first, *others = session8.run(reduced)
        for got, want in zip(first, map(np.stack, zip(*grads, strict=True)), strict=True):
            np.testing.assert_allclose(got, want.mean(axis=0), atol=2e-2 if wire_dtype else 1e-6)
        assert all(np.array_equal(*pair) for other in others for pair in zip(first, other, strict=True))


@pytest.mark.parametrize("direct_bytes", [0, 10**9])
def test_the_mean_of_equal_numbers_is_that_number_with_wide_sums(session8, rng, monkeypatch, direct_bytes):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    values = rng.normal(size=1000).astype("float32")
    assert ((values + values + values) / np.float32(3) != values).any()
    for has_wide_sums in (True, False):
        how = Exchange(has_wide_sums=has_wide_sums)
        reduced = []
        for rank in range(3):
            group = WorkerGroup(["/job:localhost/task:0"] * 3, rank, f"run {has_wide_sums}")
            reduced += all_reduce_between_workers(group, [tf.constant(values)], exchange=how)
        is_equal = [np.array_equal(each, values) for each in session8.run(reduced)]
        assert is_equal == [has_wide_sums] * 3


def test_buckets_of_other_gradients_never_meet(graph):
    names = [["a", "b", "rows"], ["b", "a", "rows"]]
    queues = []
    for own in names:
        with tf.Graph().as_default() as one:
            rows = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 1]))
            all_reduce_between_workers(PAIR, [*tensors([2], [2]), rows], exchange=Exchange(names=own))
            queues.append({op.get_attr("shared_name") for op in one.get_operations() if op.type == "FIFOQueueV2"})
            assert exchanged_here() == [
                f"{own[0]} float32 (2,) gradients/0",
                f"{own[1]} float32 (2,) gradients/0",
                "rows float32 rows of (3,) gradients/rows2",
            ]
    assert len(queues[0] & queues[1]) == 2
    assert all(b"/rows2-" in name for name in queues[0] & queues[1])


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (lambda: [tf.placeholder(tf.float32, [None])], {}, "expected a known shape; give its variable one"),
        (lambda: tensors([2], dtype="int32"), {}, "of int32, which has no mean"),
        (lambda: tensors([2], dtype="bool"), {"op": ReduceOp.SUM}, "of bool, which has no sum"),
        (lambda: tensors([2], [3]), {"exchange": Exchange(names=["a"])}, "expected one for each of 2 gradients"),
        (lambda: tensors([2], [3]), {"ready_order": [0, 0]}, "expected each of 2 gradients once"),
    ],
    ids=["no shape", "integer", "boolean", "names", "order"],
)
def test_what_cannot_be_exchanged_is_an_error(graph, make, options, words):
    grads = make()
    count = len(graph.get_operations())
    with pytest.raises(ReductionError, match=words):
        all_reduce_between_workers(PAIR, grads, **options)
    assert len(graph.get_operations()) == count


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exchange("float32"), "wire_dtype='float32': expected float16 or bfloat16"),
        (lambda: Exchange(bucket_bytes=0), "bucket_bytes"),
        (lambda: Exchange(levels=3), "levels"),
        (lambda: Exchange(op="sum"), "op"),
    ],
    ids=["wire", "bucket", "levels", "op"],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(("workers", "root"), [(2, 0), (8, 3), (13, 5), (16, 0)])
def test_copies_travel_along_a_tree(workers, root):
    """Worker 0 once sent all values to each of a thousand."""
    receivers = {}
    for rank in range(workers):
        with tf.Graph().as_default() as graph:
            group = WorkerGroup([f"/job:worker/task:{n}" for n in range(workers)], rank, "run")
            copy_from_worker(group, [tf.get_variable("w", [2])], root=root)
            queues = [op.get_attr("shared_name").decode() for op in graph.get_operations() if op.type == "FIFOQueueV2"]
            ways = [tuple(map(int, name.rpartition("/")[2].split("_to_"))) for name in queues]
            receivers[rank] = [receiver for sender, receiver in ways if sender == rank]
            senders = [sender for sender, receiver in ways if receiver == rank]
            assert len(senders) == (rank != root)
    reached, hops = [root], 0
    while len(reached) < workers:
        reached += [each for rank in reached for each in receivers[rank] if each not in reached]
        hops += 1
    assert sorted(each for those in receivers.values() for each in those) == sorted({*range(workers)} - {root})
    assert max(map(len, receivers.values())) <= (workers - 1).bit_length()
    assert hops <= (workers - 1).bit_length()


def test_arrivals_of_many_workers_are_counted_by_their_groups(graph):
    arrivals = Arrivals()
    group = WorkerGroup([f"/job:worker/task:{n}" for n in range(256)], 17, "run")
    all_reduce_between_workers(group, [tf.zeros([1 << 20])], exchange=Exchange(levels=2, arrivals=arrivals))
    # One for each of the own group, and one for each other group.
    assert len(tf.local_variables()) == 16 + 15
