import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.errors import ConfigError
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.rank_state import RankState

DRAWS = 100_000


def through(session, codec, values):
    """Return what a codec makes of a vector, and the bytes that it sends."""
    parts = codec.encode(tf.constant(values), RankState("/device:CPU:0", 1, 2))
    decoded = codec.decode(parts, len(values), tf.as_dtype(values.dtype))
    session.run(tf.global_variables_initializer())
    sent, found = session.run([list(parts), decoded])
    return found, sum(part.nbytes for part in sent)


@pytest.mark.parametrize("count", [5, 64, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eight_bits_are_the_nearest_place_in_the_range_of_a_chunk(session8, rng, count, dtype):
    values = rng.normal(size=count).astype(dtype)
    values[:2] = 7  # a chunk of which all numbers are equal, where it is short
    codec = Int8(chunk=64)
    found, size = through(session8, codec, values)
    for start in range(0, count, 64):
        own = values[start : start + 64]
        step = (own.max() - own.min()) / 255
        wanted = own.min() + np.round((own - own.min()) / step) * step
        np.testing.assert_allclose(found[start : start + 64], wanted, atol=step * 1e-3)
    assert size == codec.size_bytes([count], tf.as_dtype(dtype))


def test_equal_numbers_stay_as_they_are(session8):
    values = np.full(300, 0.1, np.float32)
    assert np.array_equal(through(session8, Int8(chunk=64), values)[0], values)


def test_stochastic_rounding_has_no_bias(session8):
    """The mean of many draws is within four deviations, and each draw is a neighbour."""
    values = np.full(DRAWS + 2, 0.3, np.float32)
    values[:2] = 0, 255
    found, _ = through(session8, Int8(chunk=DRAWS + 2, rounding="stochastic"), values)
    draws = found[2:]
    assert set(np.unique(draws)) == {0.0, 1.0}
    deviation = np.sqrt(0.3 * 0.7 / DRAWS)
    assert abs(draws.mean() - 0.3) < 4 * deviation


def test_stochastic_rounding_draws_other_numbers_in_each_step_and_worker(session8):
    shape = (64, 32)
    grads = [[np.linspace(0, 1, 2048, dtype=np.float32).reshape(shape)]] * 2
    how = Exchange(codec=Int8(rounding="stochastic"))
    exchange = EncodedExchange(session8, 2, [shape], how)
    exchange.step(grads)
    first = exchange.state("error")
    assert not np.array_equal(first[0][0], first[1][0])
    zeros = [[np.zeros(shape, np.float32)]] * 2
    exchange.step(zeros)
    # Rounding once more what is left by the same draws would leave the same share of it.
    assert not np.array_equal(exchange.state("error")[0][0], first[0][0])


@pytest.mark.parametrize("count", [5, 64, 203])
def test_one_bit_is_the_sign_with_the_mean_size_of_a_chunk(session8, rng, count):
    values = rng.normal(size=count).astype("float32")
    codec = OneBit(chunk=64)
    found, size = through(session8, codec, values)
    for start in range(0, count, 64):
        own = values[start : start + 64]
        wanted = np.where(own > 0, 1, -1) * np.abs(own).mean()
        np.testing.assert_allclose(found[start : start + 64], wanted, rtol=1e-6)
    assert size == codec.size_bytes([count], tf.float32)


@pytest.mark.parametrize(
    ("codec", "workers", "direct_bytes"),
    [(Int8(), 3, 0), (Int8(rounding="stochastic"), 4, 10**9), (OneBit(), 2, 0), (OneBit(), 4, 0)],
)
def test_all_workers_get_the_same_and_errors_do_not_add_up(session8, rng, monkeypatch, codec, workers, direct_bytes):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    monkeypatch.setattr(gradient_buckets, "PIECE_BYTES", 1500)
    shapes, steps = [(40, 50), (9,), (100, 33)], 12
    exchange = EncodedExchange(session8, workers, shapes, Exchange(codec=codec))
    means = [rng.normal(size=shape).astype("float32") for shape in shapes]
    totals = [np.zeros(shape) for shape in shapes]
    for _ in range(steps):
        grads = [[mean + rng.normal(size=mean.shape).astype("float32") * 0.1 for mean in means] for _ in range(workers)]
        found = exchange.step(grads)
        assert_equal_bits(found)
        totals = [total + each for total, each in zip(totals, found[0], strict=True)]
    for total, mean in zip(totals, means, strict=True):
        scale = np.abs(mean).max()
        assert np.abs(total / steps - mean).max() < (0.1 if codec.name == "int8" else 1.0) * scale


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Int8(chunk=0), "Int8 got chunk=0: expected an integer of at least 1"),
        (lambda: Int8(rounding="up"), "rounding='up'"),
        (lambda: OneBit(chunk=12), "OneBit got chunk=12: expected a multiple of 8"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
