import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.errors import ConfigError, ReductionError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.rank_state import RankState

SHAPES = [(60, 40), (9,), (3, 3, 8, 32)]


def gradients(rng, workers, rank=None, dtype="float32"):
    """Return gradients; those of matrices with the same columns and rows in all workers, of a rank in all."""
    found = [[rng.normal(size=shape).astype(dtype) for shape in SHAPES] for _ in range(workers)]
    for n in (0, 2) if rank else ():
        columns = SHAPES[n][-1]
        rows = int(np.prod(SHAPES[n])) // columns
        right = rng.normal(size=(rank, columns))
        for own in found:
            own[n] = (rng.normal(size=(rows, rank)) @ right).reshape(SHAPES[n]).astype(dtype)
    return found


@pytest.mark.parametrize(("op", "warm_start"), [("mean", True), ("sum", False)])
def test_a_full_rank_equals_the_plain_exchange_to_rounding(session8, rng, op, warm_start):
    codec = PowerSGD(40, min_rate=0.1, warm_start=warm_start)
    exchange = EncodedExchange(session8, 3, SHAPES, Exchange(codec=codec), op=op, dtype=np.float64)
    for _ in range(3):
        grads = gradients(rng, 3, dtype="float64")
        found = exchange.step(grads)
        assert_equal_bits(found)
        for n in range(3):
            wanted = sum(own[n] for own in grads) / (3 if op == "mean" else 1)
            np.testing.assert_allclose(found[0][n], wanted, atol=1e-9)


def test_gradients_of_the_rank_of_the_factors_come_through(session8, rng):
    exchange = EncodedExchange(session8, 2, SHAPES, Exchange(codec=PowerSGD(3)), dtype=np.float64)
    for _ in range(2):
        grads = gradients(rng, 2, rank=3, dtype="float64")
        found = exchange.step(grads)
        for n in (0, 2):
            np.testing.assert_allclose(found[0][n], (grads[0][n] + grads[1][n]) / 2, atol=1e-9)
    for errors in zip(*exchange.state("error"), strict=True):
        assert np.abs(errors[0]).max() > 1
        np.testing.assert_allclose(sum(errors), 0, atol=1e-9)


@pytest.mark.parametrize("op", ["mean", "sum"])
def test_what_was_sent_and_what_is_left_sum_up_to_the_gradients(session8, rng, op):
    exchange = EncodedExchange(session8, 3, SHAPES, Exchange(codec=PowerSGD(2)), op=op, dtype=np.float64)
    total, got, divisor = 0, 0, 3 if op == "mean" else 1
    for _ in range(4):
        grads = gradients(rng, 3, dtype="float64")
        found = exchange.step(grads)
        assert_equal_bits(found)
        total += sum(own[0] for own in grads) / divisor
        got += found[0][0]
    left = sum(next(each for each in own if each.shape == (60, 40)) for own in exchange.state("error")) / divisor
    np.testing.assert_allclose(got + left, total, atol=1e-12)
    assert np.abs(left).max() > 0.1


def test_repeated_steps_find_the_directions_of_the_largest_part(session8, rng):
    """A warm start improves the factors, so an equal gradient without memory comes out better from step to step."""
    base = rng.normal(size=(60, 2)) @ np.diag([10, 5]) @ rng.normal(size=(2, 40)) + rng.normal(size=(60, 40))
    exchange = EncodedExchange(session8, 2, [(60, 40)], Exchange(codec=PowerSGD(2), memory=None), dtype=np.float64)
    errors = [np.linalg.norm(exchange.step([[base], [base]])[0][0] - base) for _ in range(4)]
    left, sizes, right = np.linalg.svd(base)
    best = np.linalg.norm((left[:, :2] * sizes[:2]) @ right[:2] - base)
    assert errors[0] > errors[-1]
    np.testing.assert_allclose(errors[-1], best, rtol=1e-2)


def test_zeros_leave_factors_that_go_on(session8, rng):
    exchange = EncodedExchange(session8, 2, SHAPES, Exchange(codec=PowerSGD(2)), dtype=np.float64)
    exchange.step([[np.zeros(shape) for shape in SHAPES]] * 2)
    grads = gradients(rng, 2, rank=2, dtype="float64")
    for _ in range(3):
        found = exchange.step(grads)
        assert_equal_bits(found)
        assert all(np.isfinite(each).all() for each in found[0])
    assert np.abs(found[0][0]).max() > 0


def test_matrices_whose_factors_are_as_large_are_left_out():
    codec = PowerSGD(4, min_rate=2)
    assert [codec.takes(shape) for shape in [(16, 64), (4, 300), (5000,), (4, 4, 64, 64)]] == [True, False, False, True]
    assert codec.size_bytes((4, 4, 64, 64), tf.float32) == (1024 + 64) * 4 * 4
    assert codec.size_bytes((2, 100), tf.float32) == 102 * 2 * 4


def test_factors_are_not_encoded_one_by_one(graph):
    state = RankState("/device:CPU:0", 1, 2)
    with pytest.raises(ReductionError, match=r"PowerSGD.encode was called: expected reduce"):
        PowerSGD(1).encode(tf.zeros([10]), state)
    with pytest.raises(ReductionError, match=r"PowerSGD.decode was called: expected reduce"):
        PowerSGD(1).decode([], 10, tf.float32)


@pytest.mark.parametrize("make", [lambda: PowerSGD(0), lambda: PowerSGD(1, min_rate=-1.0)], ids=["rank", "min_rate"])
def test_wrong_settings_are_refused(make):
    with pytest.raises(ConfigError, match="PowerSGD got (rank|min_rate)="):
        make()
