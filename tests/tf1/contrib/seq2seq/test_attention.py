import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import seq2seq

LENGTHS = [4, 2, 1]


def softmax(scores):
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


@pytest.fixture
def memory(rng):
    return rng.normal(size=(3, 4, 2)).astype("float32")


def masked(scores):
    return np.where(np.arange(4) < np.array(LENGTHS)[:, np.newaxis], scores, -np.inf)


def run(session, mechanism, query, rng):
    """Return the alignments, the keys and the weights by name, with weights that are drawn."""
    alignments, state = mechanism(tf.constant(query), mechanism.initial_state(3, tf.float32))
    assert alignments is state
    weights = {var.op.name: rng.normal(size=var.shape.as_list()).astype("float32") for var in tf.trainable_variables()}
    for var in tf.trainable_variables():
        session.run(var.assign(weights[var.op.name]))
    return session.run(alignments), session.run(mechanism.keys), weights


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_is_a_sum(session8, memory, rng, normalize):
    query = rng.normal(size=(3, 5)).astype("float32")
    mechanism = seq2seq.BahdanauAttention(6, memory, LENGTHS, normalize=normalize)
    alignments, keys, weights = run(session8, mechanism, query, rng)
    names = ["memory_layer/kernel", "bahdanau_attention/query_layer/kernel", "bahdanau_attention/attention_v"]
    if normalize:
        names += ["bahdanau_attention/attention_g", "bahdanau_attention/attention_b"]
    assert list(weights) == names
    counts = (np.arange(4) < np.array(LENGTHS)[:, np.newaxis])[:, :, np.newaxis]
    np.testing.assert_allclose(keys, memory * counts @ weights[names[0]], rtol=1e-5, atol=1e-6)
    v, sums = weights[names[2]], keys + (query @ weights[names[1]])[:, np.newaxis]
    if normalize:
        v, sums = weights[names[3]] * v / np.linalg.norm(v), sums + weights[names[4]]
    np.testing.assert_allclose(alignments, softmax(masked((v * np.tanh(sums)).sum(2))), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scale", [False, True])
def test_luong_is_a_product(session8, memory, rng, scale):
    query = rng.normal(size=(3, 6)).astype("float32")
    mechanism = seq2seq.LuongAttention(6, memory, LENGTHS, scale=scale)
    alignments, keys, weights = run(session8, mechanism, query, rng)
    assert list(weights) == ["memory_layer/kernel", *["luong_attention/attention_g"] * scale]
    scores = np.einsum("bu,bsu->bs", query, keys) * (weights["luong_attention/attention_g"] if scale else 1)
    np.testing.assert_allclose(alignments, softmax(masked(scores)), rtol=1e-4, atol=1e-6)


def test_probability_mask_and_keys_are_those_asked_for(session8, memory, rng):
    mechanism = seq2seq.LuongAttention(
        2,
        memory,
        LENGTHS,
        probability_fn=lambda score: score,
        score_mask_value=-7.0,
        custom_key_value_fn=lambda keys, values: (keys * 0 + 1, values + 1),
    )
    query = np.ones((3, 2), "float32")
    alignments, keys, _ = run(session8, mechanism, query, rng)
    np.testing.assert_array_equal(keys, np.ones((3, 4, 2)))
    np.testing.assert_array_equal(alignments, np.where(np.isfinite(masked(keys[:, :, 0])), 2.0, -7.0))
    counts = (np.arange(4) < np.array(LENGTHS)[:, np.newaxis])[:, :, np.newaxis]
    np.testing.assert_allclose(session8.run(mechanism.values), memory * counts + 1, rtol=1e-6)


def test_sizes_are_known_or_tensors(session8, memory):
    known = seq2seq.BahdanauAttention(6, memory)
    assert (known.batch_size, known.alignments_size, known.state_size) == (3, 4, 4)
    assert known.memory_layer.units == known.query_layer.units == 6
    unknown = seq2seq.BahdanauAttention(6, tf.placeholder_with_default(memory, [None, None, 2]))
    alignments = unknown.initial_alignments(unknown.batch_size, tf.float32)
    assert alignments.shape.as_list() == [None, None]
    session8.run(tf.global_variables_initializer())
    assert session8.run([unknown.batch_size, unknown.alignments_size]) == [3, 4]
    np.testing.assert_array_equal(session8.run(alignments), np.zeros((3, 4)))


def test_hardmax_is_one_for_the_largest(session8):
    logits = [[1.0, 3.0, 2.0], [0.0, 0.0, 1.0]]
    for given in (logits, tf.placeholder_with_default(logits, [None, None])):
        np.testing.assert_array_equal(session8.run(seq2seq.hardmax(given)), [[0, 1, 0], [0, 0, 1]])


def test_wrong_arguments_are_refused(session8, memory):
    mechanism = seq2seq.LuongAttention(6, memory)
    with pytest.raises(ConfigError, match="the query has 5 units and the keys have 6. Perhaps .* to 5"):
        mechanism(tf.ones([3, 5]), mechanism.initial_state(3, tf.float32))
    with pytest.raises(ConfigError, match="to have fully defined inner dims"):
        seq2seq.BahdanauAttention(6, tf.placeholder(tf.float32, [None, None, None]))
    for name in ("alignments_size", "state_size"):
        with pytest.raises(NotImplementedError, match=f"AttentionMechanism has no {name}"):
            getattr(seq2seq.AttentionMechanism(), name)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be greater than zero"):
        session8.run(seq2seq.LuongAttention(6, memory, tf.placeholder_with_default([4, 0, 1], [3])).values)
