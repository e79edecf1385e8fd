import numpy as np
import pytest

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.errors import ConfigError
from tpack.multi_worker import gradient_buckets
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.base import Cast
from tpack.multi_worker.codecs.memory import ErrorFeedback, MomentumCorrection, MomentumFeedback
from tpack.multi_worker.codecs.quantization import Int8, OneBit
from tpack.multi_worker.codecs.sparsification import TopK

SHAPE = (64, 32)


def dyadic(rng, workers):
    """Return gradients of whole eighths, in each chunk of which the range is 255 of a power of two."""
    grads = rng.integers(-100, 101, size=(workers, *SHAPE)) / 8.0
    for own in grads:
        own[0, :2] = -127 / 8.0, 128 / 8.0
    return [[own] for own in grads]


@pytest.mark.parametrize(
    ("codec", "op", "direct_bytes"),
    [
        (TopK(0.1), "sum", 0),
        (TopK(0.01, warm_up_steps=4, chunk=512), "mean", 0),
        (OneBit(chunk=2048), "sum", 10**9),
        (OneBit(chunk=64), "mean", 0),
    ],
    ids=["top_k", "warm-up", "one_bit", "one_bit in parts"],
)
def test_what_was_sent_and_what_is_left_sum_up_to_the_gradients_exactly(
    session8, rng, monkeypatch, codec, op, direct_bytes
):
    monkeypatch.setattr(gradient_buckets, "DIRECT_BYTES", direct_bytes)
    workers = 4
    exchange = EncodedExchange(session8, workers, [SHAPE], Exchange(codec=codec), op=op, dtype=np.float64)
    total, got = np.zeros(SHAPE), np.zeros(SHAPE)
    for _ in range(4):
        grads = dyadic(rng, workers)
        found = exchange.step(grads)
        assert_equal_bits(found)
        divisor = workers if op == "mean" else 1
        total += sum(own[0] for own in grads) / divisor
        got += found[0][0]
    left = exchange.left() / divisor + exchange.left_of_sums()
    assert np.abs(left).max() > 0
    assert np.array_equal(got + left.reshape(SHAPE), total)


def test_eight_bits_and_what_is_left_sum_up_exactly_where_the_range_is_dyadic(session8, rng):
    exchange = EncodedExchange(session8, 2, [SHAPE], Exchange(codec=Int8()), op="sum", dtype=np.float64)
    grads = dyadic(rng, 2)
    (found,), _ = exchange.step(grads)
    assert np.array_equal(found, grads[0][0] + grads[1][0])
    # Each number was a place of its chunk's range; halves between two places are not, and are left.
    finer = [[own[0] + (own[0] % 0.25 == 0) * (np.abs(own[0]) < 12) / 16] for own in grads]
    (found,), _ = exchange.step(finer)
    left = exchange.left()
    assert 0 < np.abs(left).max() <= 2 / 16
    assert np.array_equal(found + left.reshape(SHAPE), finer[0][0] + finer[1][0])


def test_a_decay_forgets_a_part_of_the_error(session8, rng):
    exchange = EncodedExchange(session8, 2, [SHAPE], Exchange(codec=TopK(0.5), memory=ErrorFeedback(0.5)))
    grads = dyadic(rng, 2)
    exchange.step(grads)
    before = exchange.state("error")[0][0].reshape(SHAPE)
    nothing = [[np.zeros(SHAPE)], [np.zeros(SHAPE)]]
    exchange.step(nothing)
    after = exchange.state("error")[0][0].reshape(SHAPE)
    kept = after != 0
    assert np.array_equal(after[kept], before[kept] / 2)


@pytest.mark.parametrize("masks", [True, False])
def test_momentum_correction_that_sends_all_is_momentum_or_with_masks_plain(session8, rng, masks):
    memory = MomentumCorrection(0.5, masks=masks)
    exchange = EncodedExchange(session8, 2, [SHAPE], Exchange(codec=TopK(1.0), memory=memory))
    momentum = np.zeros(SHAPE)
    for _ in range(3):
        grads = dyadic(rng, 2)
        mean = (grads[0][0] + grads[1][0]) / 2
        momentum = mean if masks else 0.5 * momentum + mean
        (found,), _ = exchange.step(grads)
        assert np.array_equal(found, momentum)


def test_momentum_correction_keeps_what_it_does_not_send(session8, rng):
    exchange = EncodedExchange(session8, 2, [SHAPE], Exchange(codec=TopK(0.25), memory=MomentumCorrection(0.5)))
    momentum, unsent = np.zeros((2, *SHAPE)), np.zeros((2, *SHAPE))
    for _ in range(3):
        grads = dyadic(rng, 2)
        momentum = 0.5 * momentum + np.stack([own[0] for own in grads])
        unsent += momentum
        (found,), _ = exchange.step(grads)
        sent = (np.stack([each[0].reshape(SHAPE) for each in exchange.state("unsent")]) == 0) & (unsent != 0)
        assert np.array_equal(found, np.where(sent, unsent, 0).mean(axis=0))
        momentum, unsent = np.where(sent, 0, momentum), np.where(sent, 0, unsent)


@pytest.mark.parametrize(("codec", "op"), [(Cast("float32"), "mean"), (Cast("float32"), "sum"), (OneBit(), "mean")])
def test_momentum_feedback_gives_the_gradients_that_lead_to_the_common_momentum(session8, rng, codec, op):
    how = Exchange(codec=codec, memory=MomentumFeedback(0.5), start_step=2)
    exchange = EncodedExchange(session8, 2, [SHAPE], how, op=op, dtype=np.float64)
    momentum, exact = np.zeros(SHAPE), np.zeros(SHAPE)
    for _ in range(5):
        grads = dyadic(rng, 2)
        (found,), _ = exchange.step(grads)
        momentum = 0.5 * momentum + 0.5 * found
        exact = 0.5 * exact + 0.5 * (grads[0][0] + grads[1][0]) / (2 if op == "mean" else 1)
        for (kept,) in exchange.state("momentum"):
            assert np.array_equal(kept.reshape(SHAPE), momentum)
    assert np.array_equal(momentum, exact) == (codec.name == "float32")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ErrorFeedback(0.0), "ErrorFeedback got decay=0.0: expected a number greater than 0 and of at most 1"),
        (lambda: MomentumCorrection(1.0), "momentum=1.0: expected a number of at least 0 and less than 1"),
        (lambda: MomentumFeedback(1.5), "beta1=1.5: expected a number of at least 0 and of at most 1"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
