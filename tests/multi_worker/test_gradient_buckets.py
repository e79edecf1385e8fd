import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.multi_worker.codecs.base import Cast
from tpack.multi_worker.gradient_buckets import (
    DIRECT_BYTES,
    MAX_BUCKETS,
    PIECE_BYTES,
    Route,
    cut,
    cut_sizes,
    joined,
    parted,
    plan_buckets,
    plan_exchange,
    variables_change_in_place,
)

CPU = "/device:CPU:0"


def tensors(*shapes, dtype="float32"):
    return [tf.zeros(shape, dtype) for shape in shapes]


def test_small_gradients_are_joined_to_buckets_of_about_as_many_bytes(graph):
    grads = [*tensors([100], [100], [200], [300]), *tensors([50], dtype="float64")]
    assert plan_buckets(grads, [3, 2, 4, 1, 0], 1400) == [[3], [4], [2, 1, 0]]
    assert plan_buckets(grads, [0, 1, 2, 3, 4], 10**9) == [[0, 1, 2, 3], [4]]
    many = tensors(*[[10]] * 100)
    assert len(plan_buckets(many, range(100), 41)) == MAX_BUCKETS
    assert sum(plan_buckets(many, range(100), 41), []) == list(range(100))


def test_a_large_gradient_is_a_bucket_between_those_of_its_neighbours(graph):
    grads = tensors([100], [400], [100], [400], [100])
    assert plan_buckets(grads, range(5), 1600) == [[1], [3], [0, 2, 4]]
    assert plan_buckets(grads, range(5), 600) == [[0], [1], [3], [2, 4]]
    assert len(plan_buckets(tensors(*[[10]] * 100), range(100), 40)) == 100


def test_empty_gradients_are_in_a_bucket_too(graph):
    assert plan_buckets(tensors([0], [0, 3]), [0, 1], 100) == [[0, 1]]


def test_a_plan_needs_shapes_alone_and_separates_what_a_codec_takes():
    specs = [tf.TensorSpec(shape) for shape in ([64, 64], [100], [32, 64], [10])]
    assert plan_exchange(specs, range(4), 10**9) == ([[0, 1, 2, 3]], [])
    assert plan_exchange(specs, [3, 2, 1, 0], 10**9, Cast("float16").takes) == ([[3, 1]], [[2, 0]])
    whole = [tf.TensorSpec([64, 64], tf.int32), *specs[1:]]
    assert plan_exchange(whole, range(4), 10**9, Cast("float16").takes) == ([[0], [1, 3]], [[2]])


@pytest.mark.parametrize(("elements", "count"), [(1000, 1), (1000, 7), (1000, 64), (0, 3), (33, 2)])
def test_sizes_of_pieces_are_those_of_the_pieces(graph, elements, count):
    pieces = cut(tf.zeros([elements]), count, CPU)
    assert cut_sizes(elements, 4, count) == [int(piece.shape.num_elements()) for piece in pieces]


def test_two_workers_exchange_directly_and_more_do_what_is_small():
    assert Route.of_bucket(10 * PIECE_BYTES, 2) == Route(True, 10)
    assert Route.of_bucket(0, 2) == Route(True, 1)
    # Three workers send 2 b in place of 4 / 3 b.
    assert Route.of_bucket(DIRECT_BYTES * 3 // 2, 3) == Route(True, 1)
    assert Route.of_bucket(DIRECT_BYTES * 3 // 2 + 3, 3) == Route(False, 1)
    assert Route.of_bucket(12 * PIECE_BYTES, 4) == Route(False, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("size", "count"), [(0, 3), (5, 3), (1000, 1), (1000, 3), (4096, 4)])
def test_pieces_are_the_vector_in_order(session8, size, count, dtype):
    vector = tf.range(size, dtype=tf.int64)
    pieces = cut(tf.cast(vector, dtype), count, CPU)
    assert len(pieces) == count
    unit = 64 // pieces[0].dtype.size
    assert all(piece.shape.num_elements() % unit == 0 for piece in pieces[:-1])
    assert np.array_equal(np.concatenate(session8.run(pieces)), session8.run(tf.cast(vector, dtype)))


def test_what_is_joined_is_parted_again(session8, rng):
    shapes = [(2, 3), (), (0, 5), (4,)]
    arrays = [rng.normal(size=shape) for shape in shapes]
    found = session8.run(
        parted(joined(list(map(tf.constant, arrays)), is_copied=False), tensors(*shapes, dtype="float64"))
    )
    assert all(np.array_equal(*pair) for pair in zip(found, arrays, strict=True))


def test_a_single_gradient_is_copied_where_variables_change_in_place(graph):
    tf.get_variable("resource", [2], use_resource=True)
    assert not variables_change_in_place(graph)
    tf.get_variable("ref", [2], use_resource=False)
    assert variables_change_in_place(graph)
    assert joined(tensors([3]), is_copied=True).op.type == "DeepCopy"
    assert joined(tensors([3], [4]), is_copied=True).op.type == "ConcatV2"
