"""The oracle goes through all sequences of a small vocabulary.

The cell is a table: the state is the token before, and the logits are its row. So the probability of a sequence is a
product of entries, and numpy can try all of them.
"""

from itertools import product

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import seq2seq
from tpack.tf1.layers.core import Dense
from tpack.tf1.rnn_cell.base import RNNCell
from tpack.tf1.rnn_cell.lstm import GRUCell

TOKENS, END, STEPS = 3, 0, 4
STARTS = [1, 2]
ALL = TOKENS**STEPS


class TableCell(RNNCell):
    """Gives the row of a table that its input, a token, has; its state is the sum of the tokens."""

    state_size = 1
    output_size = TOKENS

    def __init__(self, table):
        super().__init__()
        self._table = table

    def call(self, inputs, state):
        return tf.gather(self._table, tf.cast(inputs[:, 0], tf.int32)), state + inputs


def decode(table, beams, steps=STEPS, **options):
    decoder = seq2seq.BeamSearchDecoder(
        TableCell(tf.constant(table, tf.float32)),
        embedding=lambda ids: tf.cast(ids, tf.float32)[..., tf.newaxis],
        start_tokens=STARTS,
        end_token=END,
        initial_state=tf.zeros([len(STARTS) * beams, 1]),
        beam_width=beams,
        **options,
    )
    return seq2seq.dynamic_decode(decoder, maximum_iterations=steps)


def whole_sequences():
    """Return all sequences that end with the end or fill all steps, each once."""
    found = set()
    for tokens in product(range(TOKENS), repeat=STEPS):
        stop = tokens.index(END) + 1 if END in tokens else STEPS
        found.add(tokens[:stop])
    return found


def log_probability(table, start, tokens):
    logs = table - np.log(np.exp(table).sum(1, keepdims=True))
    return sum(logs[pair] for pair in zip((start, *tokens), tokens, strict=False))


def rank(table, start, tokens, weight):
    # The token of the end does not count in its own step, and does in those after it.
    length = len(tokens) - (END in tokens and len(tokens) == STEPS)
    return log_probability(table, start, tokens) / ((5 + length) / 6) ** weight


@pytest.mark.parametrize("weight", [0.0, 1.5])
def test_a_wide_beam_finds_the_best_of_all_sequences(session8, rng, weight):
    table = rng.normal(size=(TOKENS, TOKENS))
    final, state, _ = decode(table, ALL, length_penalty_weight=weight)
    outputs, state = session8.run([final, state])
    assert outputs.predicted_ids.shape == (2, STEPS, ALL)
    for row, start in enumerate(STARTS):
        ranks = {tokens: rank(table, start, tokens, weight) for tokens in whole_sequences()}
        count = len(ranks)
        padded = [tuple(map(int, tokens)) for tokens in outputs.predicted_ids[row].T[:count]]
        got = [tokens[: tokens.index(END) + 1] if END in tokens else tokens for tokens in padded]
        # Those that have the same transitions in another order have the same probability.
        assert sorted(got) == sorted(ranks)
        np.testing.assert_allclose([ranks[tokens] for tokens in got], sorted(ranks.values(), reverse=True), rtol=1e-5)
        scores = outputs.beam_search_decoder_output.scores[row, -1, :count]
        np.testing.assert_allclose(scores, [ranks[tokens] for tokens in got], rtol=1e-5)
        logs = [log_probability(table, start, tokens) for tokens in got]
        np.testing.assert_allclose(state.log_probs[row, :count], logs, rtol=1e-5)
        assert state.lengths[row, :count].tolist() == [len(tokens) for tokens in got]
        sums = [start + sum(tokens[: STEPS - 1]) for tokens in got]
        np.testing.assert_array_equal(state.cell_state[row, :count, 0], sums)


def test_one_beam_is_greedy(session8, rng):
    table = rng.normal(size=(TOKENS, TOKENS))
    table[:, END] -= 1
    final, _, _ = decode(table, 1)
    assert final.predicted_ids.shape.as_list() == [2, None, 1]
    got = session8.run(final.predicted_ids)
    for row, start in enumerate(STARTS):
        tokens, before = [], start
        for _ in range(got.shape[1]):
            before = END if END in tokens else int(table[before].argmax())
            tokens.append(before)
        assert got[row, :, 0].tolist() == tokens


def attentive(memory, beams, lengths, history=False):
    tiled, lengths = seq2seq.tile_batch((tf.constant(memory), tf.constant(lengths)), beams)
    mechanism = seq2seq.BahdanauAttention(4, tiled, lengths)
    return seq2seq.AttentionWrapper(GRUCell(4), mechanism, 4, alignment_history=history)


@pytest.mark.parametrize("is_reordered", [True, False])
def test_the_history_of_alignments_is_that_of_the_whole_sequences(session8, rng, is_reordered):
    memory = rng.normal(size=(2, 5, 3)).astype("float32")
    table = tf.constant(rng.normal(size=(TOKENS, 4)).astype("float32"))
    wrapper = attentive(memory, 3, [5, 4], history=True)
    layer = Dense(TOKENS)
    decoder = seq2seq.BeamSearchDecoder(
        wrapper, table, STARTS, END, wrapper.zero_state(6, tf.float32), 3, layer, reorder_tensor_arrays=is_reordered
    )
    outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    assert "decoder/attention_wrapper/attention_layer/kernel" in {var.op.name for var in tf.trainable_variables()}
    history = state.cell_state.alignment_history
    if not is_reordered:
        assert isinstance(history, tf.TensorArray)
        return
    # The same tokens, fed one after the other, look at the same places.
    ids = tf.reshape(tf.transpose(outputs.predicted_ids, [0, 2, 1]), [6, -1])
    starts = tf.repeat(tf.constant(STARTS), 3)[:, tf.newaxis]
    fed = tf.gather(table, tf.concat([starts, ids[:, :-1]], axis=1))
    helper = seq2seq.TrainingHelper(fed, tf.fill([6], tf.shape(ids)[1]))
    with tf.variable_scope("decoder", reuse=True) as scope:
        again = seq2seq.BasicDecoder(wrapper, helper, wrapper.zero_state(6, tf.float32), layer)
        _, wanted, _ = seq2seq.dynamic_decode(again, scope=scope)
    wanted = wanted.alignment_history.stack()
    session8.run(tf.global_variables_initializer())
    history, wanted, lengths = session8.run([history, wanted, state.lengths])
    assert history.shape == wanted.shape
    for beam, length in enumerate(lengths.reshape(-1)):
        np.testing.assert_allclose(history[:length, beam], wanted[:length, beam], rtol=1e-4, atol=1e-6)


def test_coverage_is_taken_from_what_has_finished(session8, rng):
    memory = rng.normal(size=(1, 4, 3)).astype("float32")
    table = tf.constant(rng.normal(size=(TOKENS, 4)).astype("float32"))
    scores = {}
    for weight in (0.0, 0.5):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            wrapper = attentive(memory, 2, [3])
            decoder = seq2seq.BeamSearchDecoder(
                wrapper, table, [1], END, wrapper.zero_state(2, tf.float32), 2, Dense(TOKENS), 0.0, weight
            )
            state = decoder.initialize()[2]
            finished = state._replace(finished=tf.constant([[True, False]]), log_probs=tf.constant([[-1.0, -2.0]]))
            if weight:
                seen = tf.constant([[[0.5, 2.0, 0.25, 0.0]] * 2])
                finished = finished._replace(accumulated_attention_probs=seen)
            with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
                scores[weight] = decoder.step(0, decoder.initialize()[1], finished)[0].scores
    session8.run(tf.global_variables_initializer())
    plain, taken = session8.run([scores[0.0], scores[0.5]])
    # The place that was never looked at is behind the end; the other beam goes on and loses nothing.
    finished = -1.0 + 0.5 * (np.log(0.5) + np.log(0.25))
    assert np.isclose(plain, -1.0).any()
    assert np.isclose(taken, finished).any() or taken.min() > finished
    assert not np.isclose(taken, -1.0).any()


def test_wrong_arguments_are_refused(graph):
    cell, table = GRUCell(4), tf.zeros([TOKENS, 4])
    state = cell.zero_state(4, tf.float32)
    with pytest.raises(WrongTypeError, match="cell=1: expected an RNNCell"):
        seq2seq.BeamSearchDecoder(1, table, STARTS, END, state, 2)
    with pytest.raises(WrongTypeError, match="output_layer=3: expected a Layer"):
        seq2seq.BeamSearchDecoder(cell, table, STARTS, END, state, 2, output_layer=3)
    with pytest.raises(ConfigError, match="got start_tokens of shape .*: expected a vector"):
        seq2seq.BeamSearchDecoder(cell, table, [STARTS], END, state, 2)
    with pytest.raises(ConfigError, match="got end_token of shape .*: expected a scalar"):
        seq2seq.BeamSearchDecoder(cell, table, STARTS, [END], state, 2)
    with pytest.raises(ConfigError, match="expected 0.0 with a cell without attention"):
        seq2seq.BeamSearchDecoder(cell, table, STARTS, END, state, 2, coverage_penalty_weight=0.5).initialize()
