import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Cast, Codec

SHAPES = [(40, 50), (7,), (100, 33), (3, 3)]


def gradients(rng, workers, shapes=SHAPES, dtype="float32"):
    return [[rng.normal(size=shape).astype(dtype) for shape in shapes] for _ in range(workers)]


@pytest.mark.parametrize(
    ("workers", "op", "direct_bytes", "start_step"),
    [(2, "mean", 0, 0), (3, "mean", 0, 2), (3, "sum", 10**9, 0), (4, "mean", 0, 0)],
)
def test_a_codec_of_32_bits_equals_the_plain_exchange_bit_by_bit(
    session8, rng, monkeypatch, workers, op, direct_bytes, start_step
):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    grads = [gradients(rng, workers) for _ in range(3)]
    plain = EncodedExchange(session8, workers, SHAPES, Exchange(), op=op)
    wanted = [plain.step(each) for each in grads]
    how = Exchange(codec=Cast("float32"), start_step=start_step)
    encoded = EncodedExchange(session8, workers, SHAPES, how, op=op, run="encoded")
    for each, want in zip(grads, wanted, strict=True):
        found = encoded.step(each)
        assert_equal_bits([*found, want[0]])


def test_cast_rounds_what_it_takes(session8, rng):
    grads = gradients(rng, 2)
    found = EncodedExchange(session8, 2, SHAPES, Exchange(codec=Cast("bfloat16"), memory=None)).step(grads)
    assert_equal_bits(found)
    bfloat16 = tf.bfloat16.as_numpy_dtype
    for n, shape in enumerate(SHAPES):
        is_rounded = math.prod(shape) >= 1024
        sent = [own[n].astype(bfloat16).astype("float32") if is_rounded else own[n] for own in grads]
        assert np.array_equal(found[0][n], (sent[0] + sent[1]) / 2)


class Booleans(Codec):
    name = "booleans"

    def encode(self, values, state):
        return [values > 0]

    def decode(self, parts, count, dtype):
        return tf.cast(parts[0], dtype)

    def size_bytes(self, shape, dtype):
        return math.prod(shape)


def test_booleans_cannot_be_sent(session8):
    with pytest.raises(ReductionError, match="Booleans got bool of shape .*use tf.cast"):
        EncodedExchange(session8, 2, [(40, 50)], Exchange(codec=Booleans()))


class Votes(Booleans):
    """Signs of gradients, of which the majority decides."""

    def encode(self, values, state):
        return [tf.cast(tf.sign(values), tf.int8)]

    def conclude(self, total):
        return tf.sign(total)


@pytest.mark.parametrize(("workers", "direct_bytes"), [(2, 0), (3, 0), (3, 10**9)])
def test_a_codec_concludes_for_all_workers_alike(session8, rng, monkeypatch, workers, direct_bytes):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    grads = gradients(rng, workers)
    found = EncodedExchange(session8, workers, SHAPES, Exchange(codec=Votes(), memory=None)).step(grads)
    assert_equal_bits(found)
    assert np.array_equal(found[0][0], np.sign(sum(np.sign(own[0]) for own in grads)))


def test_small_gradients_and_vectors_are_not_taken():
    taken = [shape for shape in [(2000,), (32, 32), (31, 33), (), (4, 4, 64, 1)] if Cast("float16").takes(shape)]
    assert taken == [(32, 32), (4, 4, 64, 1)]
    assert Cast("float16").size_bytes([30, 10], tf.float32) == 600


def test_another_dtype_is_refused():
    with pytest.raises(ConfigError, match="Cast got dtype='int8': expected float16"):
        Cast("int8")


def test_settings_are_in_the_text_of_a_codec():
    assert repr(Votes()) == "Votes()"
    assert repr(Cast("float16")) == "Cast(name='float16')"
