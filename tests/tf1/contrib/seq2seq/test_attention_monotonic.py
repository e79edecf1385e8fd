import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import seq2seq


def by_definition(p, before):
    """Sum over all places where one was, and go on from each until one stops."""
    wanted = np.zeros_like(p)
    for row, start, place in np.ndindex(p.shape[0], p.shape[1], p.shape[1]):
        if place >= start:
            passed = np.prod(1 - p[row, start:place])
            wanted[row, place] += before[row, start] * passed * p[row, place]
    return wanted


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
def test_one_goes_on_from_where_one_was(session8, rng, mode):
    p = rng.uniform(0.1, 0.9, (3, 5))
    before = rng.dirichlet(np.ones(5), 3)
    if mode == "hard":
        p, before = np.round(p), np.eye(5)[[0, 2, 4]]
    got = session8.run(seq2seq.monotonic_attention(p, before, mode))
    np.testing.assert_allclose(got, by_definition(p, before), rtol=1e-6, atol=1e-9)


def test_products_of_small_numbers_have_gradients(session8):
    x = tf.constant([0.5, 0.0, 0.5])
    products = seq2seq.safe_cumprod(x)
    gradient = session8.run(tf.gradients(products, x)[0])
    np.testing.assert_allclose(session8.run(products), [0.5, 0.0, 0.0], atol=1e-30)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", ["bahdanau", "luong"])
@pytest.mark.parametrize("mode", ["parallel", "hard"])
def test_mechanisms_go_on_by_their_score(session8, rng, kind, mode):
    memory = rng.normal(size=(2, 4, 3)).astype("float32")
    query = rng.normal(size=(2, 3)).astype("float32")
    plain, monotonic = {
        "bahdanau": (seq2seq.BahdanauAttention, seq2seq.BahdanauMonotonicAttention),
        "luong": (seq2seq.LuongAttention, seq2seq.LuongMonotonicAttention),
    }[kind]
    mechanism = monotonic(3, memory, [4, 3], score_bias_init=0.25, mode=mode)
    state = mechanism.initial_state(2, tf.float32)
    alignments, _ = mechanism(tf.constant(query), state)
    names = [var.op.name for var in tf.trainable_variables()]
    assert names[-1] == f"{kind}_monotonic_attention/attention_score_bias"
    # The same weights, and the score as it is.
    weights = dict(zip(["memory_layer", "query_layer", "attention_v"], tf.trainable_variables(), strict=False))
    with tf.variable_scope("plain"):
        scoring = plain(3, memory, [4, 3], probability_fn=lambda score: score)
        scores, _ = scoring(tf.constant(query), scoring.initial_state(2, tf.float32))
    copies = [var for var in tf.trainable_variables() if var.op.name.startswith("plain/")]
    session8.run(tf.global_variables_initializer())
    for copy, original in zip(copies, weights.values(), strict=False):
        session8.run(copy.assign(original))
    scores, state, alignments = session8.run([scores, state, alignments])
    np.testing.assert_array_equal(state, np.eye(4)[[0, 0]])
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-(scores + 0.25))) if mode == "parallel" else (scores + 0.25 > 0).astype("float32")
    np.testing.assert_allclose(alignments, by_definition(p, state), rtol=1e-4, atol=1e-6)


def test_noise_is_added_to_scores(session8):
    mechanism = seq2seq.LuongMonotonicAttention(2, tf.zeros([2000, 1, 2]), sigmoid_noise=2.0, sigmoid_noise_seed=3)
    alignments, _ = mechanism(tf.zeros([2000, 2]), mechanism.initial_state(2000, tf.float32))
    session8.run(tf.global_variables_initializer())
    p = session8.run(alignments)
    np.testing.assert_allclose(np.std(np.log(p / (1 - p))), 2.0, rtol=0.1)


def test_a_mode_that_is_none_is_refused(graph):
    with pytest.raises(ConfigError, match="expected one of 'recursive', 'parallel', 'hard'"):
        seq2seq.monotonic_attention(tf.ones([2, 2]), tf.ones([2, 2]), "soft")
    with pytest.raises(ConfigError, match="got mode='soft'"):
        seq2seq.BahdanauMonotonicAttention(2, tf.ones([2, 2, 2]), mode="soft")
