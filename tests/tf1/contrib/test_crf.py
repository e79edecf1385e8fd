"""Every sequence of tags is tried, on sequences of four places and three tags."""

from itertools import product

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import crf

PLACES, TAGS = 4, 3
LENGTHS = np.array([4, 2, 1, 0, 3], np.int32)


@pytest.fixture
def potentials(rng):
    return rng.normal(size=(len(LENGTHS), PLACES, TAGS)).astype("float32")


@pytest.fixture
def transitions(rng):
    return rng.normal(size=(TAGS, TAGS)).astype("float32")


def score(potentials, transitions, tags):
    unary = sum(potentials[place, tag] for place, tag in enumerate(tags))
    return unary + sum(transitions[pair] for pair in zip(tags, tags[1:], strict=False))


def all_scores(potentials, transitions, length):
    """Return {tags: score} for all sequences of a length."""
    return {tags: score(potentials, transitions, tags) for tags in product(range(TAGS), repeat=length)}


def log_sum(scores):
    return np.log(sum(np.exp(number) for number in scores))


def with_unknown_shapes(array):
    return tf.placeholder_with_default(array, [None] * (array.ndim - 1) + [array.shape[-1] if array.ndim > 1 else None])


def test_the_norm_is_the_sum_over_all_sequences(session8, potentials, transitions):
    wanted = [
        log_sum(all_scores(x, transitions, length).values()) if length else 0.0
        for x, length in zip(potentials, LENGTHS, strict=True)
    ]
    for inputs, lengths in ((potentials, LENGTHS), (with_unknown_shapes(potentials), tf.constant(LENGTHS, tf.int64))):
        norm = session8.run(crf.crf_log_norm(inputs, lengths, transitions))
        np.testing.assert_allclose(norm, wanted, rtol=1e-5)


def test_scores_are_those_of_the_sequences(session8, potentials, transitions, rng):
    tags = rng.integers(0, TAGS, (len(LENGTHS), PLACES))
    # What lies behind an end may be no tag at all.
    tags[np.arange(PLACES) >= LENGTHS[:, np.newaxis]] = -1
    wanted = [score(x, transitions, row[:length]) for x, row, length in zip(potentials, tags, LENGTHS, strict=True)]
    norm = crf.crf_log_norm(potentials, LENGTHS, transitions)
    likelihood, given = crf.crf_log_likelihood(potentials, tags, LENGTHS, transitions)
    got, log_likelihood, norm = session8.run(
        [crf.crf_sequence_score(potentials, tags, LENGTHS, transitions), likelihood, norm]
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    np.testing.assert_allclose(log_likelihood, wanted - norm, rtol=1e-4, atol=1e-5)
    assert given is transitions


def test_several_tags_may_be_allowed(session8, potentials, transitions, rng):
    allowed = rng.random(potentials.shape) > 0.4
    allowed[:, :, 0] = True
    wanted = []
    for x, bits, length in zip(potentials, allowed, LENGTHS, strict=True):
        scores = all_scores(x, transitions, length)
        fitting = [scores[tags] for tags in scores if all(bits[place, tag] for place, tag in enumerate(tags))]
        wanted.append(log_sum(fitting) if length else 0.0)
    got = session8.run(crf.crf_multitag_sequence_score(potentials, allowed, LENGTHS, transitions))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("places", [PLACES, 1])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_best_sequence_is_found(session8, potentials, transitions, places, is_known):
    potentials, lengths = potentials[:, :places], np.minimum(LENGTHS, places)
    inputs = potentials if is_known else with_unknown_shapes(potentials)
    tags, scores = session8.run(crf.crf_decode(inputs, transitions, lengths))
    assert tags.dtype == np.int32
    for x, length, row, best in zip(potentials, lengths, tags, scores, strict=True):
        # One without a place is decoded as one of one place.
        every = all_scores(x, transitions, max(length, 1))
        wanted = max(every, key=every.get)
        assert tuple(row) == wanted + (0,) * (places - len(wanted))
        np.testing.assert_allclose(best, every[wanted], rtol=1e-5)
        by_numpy = crf.viterbi_decode(x[: max(length, 1)], transitions)
        assert tuple(by_numpy[0]) == wanted
        np.testing.assert_allclose(by_numpy[1], every[wanted], rtol=1e-5)


def test_the_gradient_is_what_is_there_less_what_is_expected(session8, potentials, transitions):
    x, tags = tf.constant(potentials[:1]), [[0, 1, 2, 1]]
    likelihood, made = crf.crf_log_likelihood(x, tags, LENGTHS[:1])
    assert [var.op.name for var in tf.trainable_variables()] == ["transitions"]
    assert made.shape == (TAGS, TAGS)
    gradient = tf.gradients(likelihood, [x])[0]
    session8.run(made.assign(transitions))
    got = session8.run(gradient)[0]

    scores = all_scores(potentials[0], transitions, PLACES)
    wanted = np.zeros((PLACES, TAGS))
    norm = log_sum(scores.values())
    for sequence, number in scores.items():
        wanted[np.arange(PLACES), sequence] -= np.exp(number - norm)
    wanted[np.arange(PLACES), tags[0]] += 1
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_cells_tell_their_sizes(graph):
    transitions = tf.zeros([TAGS, TAGS])
    cells = [
        crf.CrfForwardRnnCell(transitions),
        crf.CrfDecodeForwardRnnCell(transitions),
        crf.CrfDecodeBackwardRnnCell(TAGS),
    ]
    assert [(cell.state_size, cell.output_size) for cell in cells] == [(TAGS, TAGS), (TAGS, TAGS), (1, 1)]


def test_a_number_of_tags_that_is_not_known_is_refused(graph):
    with pytest.raises(ConfigError, match=r"expected \[B, T, N\] with a known N"):
        crf.crf_log_likelihood(tf.placeholder(tf.float32, [None, None, None]), [[0]], [1])
