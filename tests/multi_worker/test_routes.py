import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.simulated_workers import exchanged, first_of_equal, sent_by_one
from tests.helpers.worker_job import run_workers, values_of
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Arrivals, Exchange, all_reduce_between_workers
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.routes import groups_for, groups_of, levels_of, note_nothing, takes_two_levels, way_of
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp

MB = 2**20
LARGE = 100 * MB
SHAPES = [(70, 3), (), (0, 4), (2001,)]


def group_of(workers, machines=(), rank=0):
    return WorkerGroup([f"/job:worker/task:{n}" for n in range(workers)], rank, "run", machines)


def dyadic(rng, workers, dtype="float32"):
    """Return gradients whose sums are exact in any order."""
    return [[rng.integers(-64, 64, size=shape).astype(dtype) / 8 for shape in SHAPES] for _ in range(workers)]


@pytest.mark.parametrize(("workers", "size"), [(4, 2), (6, 2), (8, 2), (9, 3), (12, 3), (16, 4), (64, 8), (35, 5)])
def test_a_group_has_about_the_square_root_of_all_workers(workers, size):
    groups = groups_of(group_of(workers), 2)
    assert [len(ranks) for ranks in groups] == [size] * (workers // size)
    assert sum(groups, ()) == tuple(range(workers))
    assert groups_of(group_of(workers), 1) == (tuple(range(workers)),)


@pytest.mark.parametrize(("workers", "size"), [(11, 3), (13, 3), (26, 5), (1018, 31), (1021, 31)])
def test_groups_differ_by_one_where_no_divisor_is_near_the_square_root(workers, size):
    groups = groups_of(group_of(workers), 2)
    assert {len(ranks) for ranks in groups} == {size, size + 1}
    assert sum(groups, ()) == tuple(range(workers))


@pytest.mark.parametrize("workers", [2, 3, 5, 7])
def test_few_workers_of_a_prime_number_have_one_level(workers):
    for levels in (1, 2, None, "machines"):
        assert groups_of(group_of(workers), levels) == (tuple(range(workers)),)


def test_machines_are_groups_where_they_are_known_and_have_equally_many_workers():
    cyclic = group_of(6, [0, 1, 0, 1, 0, 1])
    assert groups_of(cyclic, "machines") == groups_of(cyclic, None) == ((0, 2, 4), (1, 3, 5))
    assert groups_of(cyclic, 2) == ((0, 1), (2, 3), (4, 5))
    for machines in ([0] * 6, range(6), ()):
        assert groups_of(group_of(6, machines), "machines") == ((0, 1, 2, 3, 4, 5),)
    with captured_log() as lines:
        assert len(groups_of(group_of(4, [0, 0, 0, 3]), "machines")) == 1
    assert any("Machines have [1, 3] workers, not equally many" in line for line in lines)
    assert groups_of(group_of(4, [0, 0, 0, 3]), None) == ((0, 1), (2, 3))


def test_two_levels_are_taken_where_messages_cost_more():
    def takes(workers, size_bytes, levels=None):
        return takes_two_levels(size_bytes, groups_of(group_of(workers), levels), levels)

    assert [workers for workers in range(2, 17) if takes(workers, MB)] == [*range(9, 17)]
    # Two hops more cost more than the messages of few workers, and three more than those of small buckets.
    assert [takes(workers, 1000) for workers in (9, 16, 28, 30)] == [False, False, False, True]
    # By hand: wherever there would be two hops, or more messages in one.
    assert [takes(workers, MB, 2) for workers in (4, 5, 9)] == [True, False, True]
    assert [takes(workers, 1000, 2) for workers in (4, 9, 16)] == [False, False, True]
    assert not takes(64, LARGE, 1)


def test_a_bucket_has_one_way_for_all_of_its_pieces():
    one, two = (groups_of(group_of(9), levels) for levels in (1, 2))
    assert way_of(1000, one) == ("directly", 1)
    assert way_of(LARGE, one) == ("in_parts", 2)
    assert way_of(LARGE, two) == ("in_two_levels", 5)
    assert way_of(LARGE, ((0, 1),)) == ("directly", 13)
    assert [groups_for(size, two, 2) for size in (1000, MB)] == [one, two]


def test_a_worker_exchanges_with_the_same_places_of_other_groups():
    assert levels_of(4, ((0, 1, 2), (3, 4, 5))) == ((3, 4, 5), (3, 4, 5), [1, 4])
    # The last one of a larger group owns no part.
    assert levels_of(5, ((0, 1), (2, 3), (4, 5, 6))) == ((4, 5, 6), (4, 5), [1, 3, 5])
    assert levels_of(6, ((0, 1), (2, 3), (4, 5, 6))) == ((4, 5, 6), (4, 5), [])


@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("workers", [4, 9, 11])
def test_two_levels_give_all_workers_the_bits_of_one_level(session8, rng, monkeypatch, workers, op):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", 0)
    grads = dyadic(rng, workers)
    results = [exchanged(grads, Exchange(levels=levels, bucket_bytes=4000), op) for levels in (1, 2)]
    assert any(b"/across/" in op.get_attr("shared_name") for op in _queues(session8.graph))
    for _ in range(2):
        one, two = map(first_of_equal, session8.run(results))
        for got, plain, all_of in zip(two, one, zip(*grads, strict=True), strict=True):
            assert np.array_equal(got, plain)
            np.testing.assert_allclose(got, np.sum(all_of, axis=0) / op.divisor(workers), rtol=1e-6)


def _queues(graph):
    return [op for op in graph.get_operations() if op.type == "FIFOQueueV2"]


@pytest.mark.parametrize("wire_dtype", [None, "float16", "bfloat16"])
def test_machines_in_any_order_and_pieces_and_16_bits_give_the_mean(session8, rng, monkeypatch, wire_dtype):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", 0)
    monkeypatch.setattr(gradient_buckets, "PIECE_BYTES", 700)
    grads = [[rng.normal(size=shape).astype("float64") for shape in SHAPES] for _ in range(6)]
    got = exchanged(grads, Exchange(wire_dtype, levels="machines"), machines=[0, 1, 0, 1, 1, 0])
    for each, all_of in zip(first_of_equal(session8.run(got)), zip(*grads, strict=True), strict=True):
        np.testing.assert_allclose(each, np.mean(all_of, axis=0), rtol=0, atol=0.05 if wire_dtype else 1e-12)


def test_sums_between_levels_do_not_leave_the_range_of_16_bits(session8, monkeypatch):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", 0)
    grads = [[np.full(300, 40_000.0, "float32")] for _ in range(4)]
    got = exchanged(grads, Exchange("float16", levels=2))
    assert np.array_equal(first_of_equal(session8.run(got))[0], grads[0][0])


@pytest.mark.parametrize(("workers", "size"), [(4, 2), (9, 3), (16, 4)])
def test_messages_and_bytes_are_those_of_the_formula(workers, size):
    count = 16 * workers * 3000
    size_bytes, groups = 4 * count, workers // size
    for rank in range(workers):
        one, two = (sent_by_one(workers, [[count]], Exchange(levels=levels), rank) for levels in (1, 2))
        assert one == (2 * (workers - 1), 2 * (workers - 1) * size_bytes // workers)
        assert two == (2 * (size - 1 + groups - 1), one[1])


def test_a_worker_without_a_part_sends_its_group_alone(workers=13):
    # Groups of 4, 3, 3, 3: worker 3 owns nothing.
    count = 3 * 13 * 16 * 1000
    sent = [sent_by_one(workers, [[count]], Exchange(levels=2), rank) for rank in range(workers)]
    assert sent[3] == (3, 4 * count)
    assert [messages for messages, _ in sent] == [3 + 2 * 3 + 2 - 0] * 3 + [3] + [2 * (2 + 3)] * 9


def test_the_graph_of_a_worker_grows_as_the_square_root_of_all():
    def size_of(workers):
        with tf.Graph().as_default() as graph:
            how = Exchange(arrivals=Arrivals())
            all_reduce_between_workers(group_of(workers, rank=1), [tf.zeros([1 << 20])], exchange=how)
            tasks = {op.device.partition("/device")[0] for op in graph.get_operations() if "/job" in op.device}
            return len(graph.get_operations()), len(tasks) - 1

    sizes = {workers: size_of(workers) for workers in (64, 256, 1021, 1024)}
    assert sizes[256][0] < 2.2 * sizes[64][0]
    assert sizes[1024][0] < 2.2 * sizes[256][0]
    assert [tasks for _, tasks in sizes.values()] == [14, 30, 62, 62]
    # A prime number costs little more than its neighbour.
    assert sizes[1021][0] < 1.1 * sizes[1024][0]


def test_machines_exchange_with_the_owners_of_others_alone():
    count = 16 * 8 * 3000
    found = sent_by_one(8, [[count]], Exchange(levels="machines"), 5, [0] * 4 + [1] * 4)
    assert found == (2 * (3 + 1), 2 * 7 * 4 * count // 8)


def test_the_groups_are_in_what_workers_compare():
    noted = []
    for machines in ((), [0, 0, 1, 1], [0, 1, 0, 1]):
        with tf.Graph().as_default():
            how = Exchange(levels="machines" if machines else 2)
            all_reduce_between_workers(group_of(4, machines), [tf.zeros([MB])], exchange=how)
            noted += exchanged_here()
    assert noted[0].startswith("float32 (1048576,) gradients/0 in 2 groups, ")
    assert noted[0] == noted[1] != noted[2]


def test_plain_tensors_of_a_codec_take_two_levels(session8, rng, monkeypatch):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", 0)
    tf.train.get_or_create_global_step()
    grads = [[rng.normal(size=[64, 32]).astype("float32")] for _ in range(4)]
    got = exchanged(grads, Exchange(codec=PowerSGD(2), levels=2))
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    first_of_equal(session8.run(got))
    assert any(b"/across/" in op.get_attr("shared_name") for op in _queues(session8.graph))


def test_nothing_is_noted_by_default():
    assert note_nothing(group_of(2), []) == []


def test_processes_get_the_sums_of_one_level(tmp_path):
    """Four processes, which also note the arrival of each, and exchange by Adasum."""
    found = values_of(run_workers("tests.helpers.exchange_scenarios.levels", 4, tmp_path))
    for worker in found:
        assert all(np.array_equal(*pair) for pair in zip(worker["two"], worker["one"], strict=True))
        assert all(np.array_equal(*pair) for pair in zip(worker["two"], found[0]["two"], strict=True))
        assert worker["missing"] == []
        assert worker["copied"] == 1.0
        assert worker["queues"] == 2 * 2 * (1 + 1)
        assert np.array_equal(worker["adasum"], found[0]["adasum"])
        np.testing.assert_allclose(worker["adasum"], found[0]["wanted"], rtol=1e-5, atol=1e-4)
