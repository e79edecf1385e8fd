import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.sparsification import TopK
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.worker_group import WorkerGroup

SHAPES = [(40, 50), (9,), (64, 32)]
CODECS = [Int8(), OneBit(), TopK(0.1), PowerSGD(2)]


def gradients(rng, workers):
    return [[rng.normal(size=shape).astype("float32") for shape in SHAPES] for _ in range(workers)]


class Everything(Codec):
    """Sends one number in several types, and of several shapes."""

    name = "everything"
    is_lossless = True

    def encode(self, values, state):
        rows = tf.reshape(values, [-1, 2])
        whole, rest = tf.cast(rows[:, :1], tf.int64), rows[:, 1]
        return [whole, tf.cast(rest, tf.float16), tf.constant(3, tf.uint8), tf.constant([1, 2, 3], tf.int16)]

    def decode(self, parts, count, dtype):
        whole, rest, three, numbers = parts
        rows = tf.stack([tf.cast(whole[:, 0], dtype), tf.cast(rest, dtype)], axis=1)
        is_right = tf.logical_and(tf.equal(three, 3), tf.reduce_all(tf.equal(numbers, [1, 2, 3])))
        return tf.reshape(rows, [count]) * tf.cast(is_right, dtype)

    def size_bytes(self, shape, dtype):
        return int(np.prod(shape)) * 5 + 7


@pytest.mark.parametrize("direct_bytes", [0, 10**9])
def test_tensors_of_all_types_are_one_message(session8, rng, monkeypatch, direct_bytes):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    exchange = EncodedExchange(session8, 3, SHAPES, Exchange(codec=Everything()), op="sum")
    grads = [[rng.integers(-9, 10, size=shape).astype("float32") for shape in SHAPES] for _ in range(3)]
    found = exchange.step(grads)
    assert_equal_bits(found)
    for n in range(len(SHAPES)):
        assert np.array_equal(found[0][n], sum(own[n] for own in grads))


@pytest.mark.parametrize(
    ("codec", "bad", "workers", "start_step"),
    [(Int8(), np.nan, 3, 1), (OneBit(), np.inf, 2, 0), (TopK(0.1), np.nan, 3, 0), (PowerSGD(2), np.inf, 3, 1)],
)
def test_a_step_that_is_not_finite_is_so_for_all_and_leaves_the_state(
    session8, rng, monkeypatch, codec, bad, workers, start_step
):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", 0)
    exchange = EncodedExchange(session8, workers, SHAPES, Exchange(codec=codec, start_step=start_step))
    for _ in range(2):
        exchange.step(gradients(rng, workers))
    before = exchange.everything()
    assert any(np.abs(each).max() > 0 for own in before for each in own)
    for n in (0, 1):
        grads = gradients(rng, workers)
        grads[1][n].flat[3] = bad
        found = exchange.step(grads)
        assert all(not np.isfinite(own[n]).all() for own in found)
        for own, kept in zip(exchange.everything(), before, strict=True):
            assert all(np.array_equal(*pair) for pair in zip(own, kept, strict=True))
    found = exchange.step(gradients(rng, workers))
    assert_equal_bits(found)
    assert all(np.isfinite(each).all() for each in found[0])


@pytest.mark.parametrize("codec", CODECS)
def test_gradients_travel_as_they_are_until_the_first_step(session8, rng, codec):
    exchange = EncodedExchange(session8, 3, SHAPES, Exchange(codec=codec, start_step=2))
    begin = exchange.everything()
    for step in range(4):
        grads = gradients(rng, 3)
        found = exchange.step(grads)
        assert_equal_bits(found)
        is_exact = all(np.allclose(found[0][n], sum(own[n] for own in grads) / 3, atol=1e-6) for n in (0, 2))
        assert is_exact == (step < 2)
        is_kept = all(np.array_equal(*pair) for pair in zip(exchange.everything()[1], begin[1], strict=True))
        assert is_kept == (step < 2)


@pytest.mark.parametrize("codec", CODECS)
def test_a_scale_is_not_seen_by_the_encoding(session8, rng, codec):
    scale = tf.placeholder_with_default(tf.constant(1.0), [])
    scaled = EncodedExchange(session8, 2, SHAPES, Exchange(codec=codec, scale=scale))
    plain = EncodedExchange(session8, 2, SHAPES, Exchange(codec=codec), run="plain")
    for factor in (1.0, 4.0, 0.5):
        grads = gradients(rng, 2)
        wanted = plain.step(grads)
        larger = [[each * np.float32(factor) for each in own] for own in grads]
        found = scaled.step(larger, {scale: factor})
        for n in (0, 2):
            np.testing.assert_allclose(found[0][n], wanted[0][n] * factor, rtol=1e-4, atol=1e-5)


def test_half_precision_is_widened_for_the_encoding(session8, rng):
    exchange = EncodedExchange(session8, 2, SHAPES, Exchange(codec=Int8()), dtype=np.float16)
    grads = [[each.astype("float16") for each in own] for own in gradients(rng, 2)]
    found = exchange.step(grads)
    assert_equal_bits(found)
    assert found[0][0].dtype == np.float16
    assert exchange.state("error")[0][0].dtype == np.float32


def test_rows_of_sparse_gradients_travel_as_they_are(session8):
    fetched = []
    for rank in range(2):
        group = WorkerGroup(["/job:localhost/task:0"] * 2, rank, "run")
        rows = tf.IndexedSlices(tf.fill([2, 1024], float(rank)), tf.constant([rank, 1]), tf.constant([4, 1024]))
        fetched.append(all_reduce_between_workers(group, [rows], exchange=Exchange(codec=Int8())))
    (first,), (second,) = session8.run(fetched)
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.indices, [0, 1, 1, 1])


def test_what_is_encoded_is_listed_for_a_comparison_of_the_workers(graph):
    group = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 0, "run")
    grads = [tf.zeros(shape) for shape in SHAPES]
    all_reduce_between_workers(group, grads, exchange=Exchange(codec=Int8(), names=["a", "b", "c"]))
    assert exchanged_here() == [
        "b float32 (9,) gradients/0",
        "a float32 (40, 50) gradients/int80",
        "c float32 (64, 32) gradients/int80",
    ]
