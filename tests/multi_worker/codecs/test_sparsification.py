import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.encoded_exchange import EncodedExchange, assert_equal_bits
from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.sparsification import TopK

SHAPES = [(64, 32), (9,), (30, 50)]


def largest(values, chunk, ratio):
    """Return the largest numbers of each chunk of a vector, and zeros in place of the others."""
    kept = np.zeros_like(values)
    for start in range(0, len(values), chunk):
        own = values[start : start + chunk]
        places = np.argsort(-np.abs(own))[: max(1, round(ratio * len(own)))] + start
        kept[places] = values[places]
    return kept


@pytest.mark.parametrize(("ratio", "chunk"), [(0.1, 2**16), (0.01, 1000), (1.0, 500)])
def test_the_largest_of_each_chunk_are_sent_by_all_to_all(session8, rng, ratio, chunk):
    codec = TopK(ratio, chunk=chunk)
    exchange = EncodedExchange(session8, 3, SHAPES, Exchange(codec=codec, memory=None))
    grads = [[rng.normal(size=shape).astype("float32") for shape in SHAPES] for _ in range(3)]
    found = exchange.step(grads)
    assert_equal_bits(found)
    joined = [np.concatenate([own[0].ravel(), own[2].ravel()]) for own in grads]
    wanted = sum(largest(vector, chunk, ratio) for vector in joined) / 3
    got = np.concatenate([found[0][0].ravel(), found[0][2].ravel()])
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert codec.size_bytes([len(wanted)], tf.float32) == 8 * np.count_nonzero(largest(joined[0], chunk, ratio))


def test_the_share_decreases_in_stages_of_a_warm_up(session8, rng):
    codec = TopK(0.001, warm_up_steps=8)
    exchange = EncodedExchange(session8, 2, [(100, 100)], Exchange(codec=codec, memory=None))
    sent = []
    for _ in range(10):
        own = rng.normal(size=(100, 100)).astype("float32")
        (found,), _ = exchange.step([[own], [np.zeros_like(own)]])
        sent.append(np.count_nonzero(found))
    assert sent == [2500, 2500, 630, 630, 150, 150, 40, 40, 10, 10]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TopK(0.0), "TopK got ratio=0.0: expected a number greater than 0 and of at most 1"),
        (lambda: TopK(0.5, warm_up_steps=3), "TopK got ratio=0.5: expected a ratio of less than 0.25 with warm_up"),
        (lambda: TopK(0.5, -1), "warm_up_steps"),
        (lambda: TopK(0.5, chunk=0), "chunk"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
