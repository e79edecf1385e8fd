"""Whole models of their time: a translator with attention and beams, and a tagger; two towers train as one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder
from tpack.tf1.contrib import crf, seq2seq
from tpack.tf1.layers.core import Dense
from tpack.tf1.rnn_cell.lstm import GRUCell, LSTMCell
from tpack.tower.context import current_tower_context

ROWS, TIME, TOKENS, UNITS = 4, 5, 7, 6
START, END = 0, 1
STEPS = 2


def decoder_of(memory, state, lengths, embedding, *, beams=None, targets=None):
    if beams:
        memory, state, lengths = seq2seq.tile_batch((memory, state, lengths), beams)
    mechanism = seq2seq.BahdanauAttention(UNITS, memory, lengths, normalize=True)
    wrapper = seq2seq.AttentionWrapper(GRUCell(UNITS), mechanism, UNITS)
    layer = Dense(TOKENS, use_bias=False)
    batch_size = tf.shape(memory)[0]
    first = wrapper.zero_state(batch_size, tf.float32).clone(cell_state=state)
    if beams:
        starts = tf.fill([batch_size // beams], START)
        return seq2seq.BeamSearchDecoder(
            wrapper, embedding, starts, END, first, beams, layer, length_penalty_weight=0.6
        )
    fed = tf.concat([tf.fill([batch_size, 1], START), targets[:, :-1]], axis=1)
    # The seed is that of both towers, so what is drawn is always the next token of the data or always the model's.
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(tf.gather(embedding, fed), lengths, embedding, 0.0)
    return seq2seq.BasicDecoder(wrapper, helper, first, layer)


def translate(source, lengths, *, beams=None, targets=None):
    embedding = tf.get_variable("embedding", [TOKENS, UNITS])
    memory, state = tf.nn.dynamic_rnn(GRUCell(UNITS), tf.gather(embedding, source), lengths, dtype=tf.float32)
    decoder = decoder_of(memory, state, lengths, embedding, beams=beams, targets=targets)
    return seq2seq.dynamic_decode(decoder, maximum_iterations=TIME)[0]


def translator_cost(source, targets, lengths):
    outputs = translate(source, lengths, targets=targets)
    logits = outputs.rnn_output
    weights = tf.sequence_mask(lengths, tf.shape(logits)[1], dtype=tf.float32)
    return seq2seq.sequence_loss(logits, targets[:, : tf.shape(logits)[1]], weights)


def tagger_cost(source, targets, lengths):
    embedded = tf.gather(tf.get_variable("embedding", [TOKENS, UNITS]), source)
    both, _ = tf.nn.bidirectional_dynamic_rnn(LSTMCell(UNITS), LSTMCell(UNITS), embedded, lengths, dtype=tf.float32)
    potentials = Dense(TOKENS)(tf.concat(both, -1))
    likelihood, _ = crf.crf_log_likelihood(potentials, targets, lengths)
    return -tf.reduce_mean(likelihood)


def train(builder, model, num_towers):
    """Return the weights of each tower, and what beams find, after steps on the data of ``num_towers`` towers."""
    rng = np.random.default_rng(3)
    source = rng.integers(2, TOKENS, (STEPS, num_towers * ROWS, TIME)).astype("int32")
    lengths = np.tile(np.array([5, 3, 4, 5], "int32"), num_towers)
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.int32, [])
        data = tf.constant(source)[step]

        def grad_fn():
            tower = current_tower_context()
            rows = num_towers * ROWS // tower.total
            part = slice(tower.index * rows, (tower.index + 1) * rows)
            inputs = data[part]
            cost = model(inputs, tf.reverse(inputs, [1]), tf.constant(lengths[part]))
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        optimizer = tf.train.GradientDescentOptimizer(0.5)
        with tf.variable_scope("", initializer=Fixed()):
            result = builder.build(grad_fn, lambda: optimizer)
        found = tf.constant(0)
        if model is translator_cost:
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                found = translate(source[0], lengths, beams=3).predicted_ids
        with cpu_session(graph, num_cpus=num_towers, rewrites=False) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for number in range(STEPS):
                session.run(result.train_op, {step: number})
            towers = [tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES) for tower in result.towers]
            return session.run(towers), session.run(found), [var.op.name for var in towers[0]]


class Fixed(tf.keras.initializers.Initializer):
    """Draws the same weights for each variable of a shape."""

    def __call__(self, shape, dtype=tf.float32, **kwargs):
        values = np.random.default_rng(len(shape)).normal(size=shape, scale=0.5)
        return tf.constant(values, dtype)


@pytest.mark.parametrize("model", [translator_cost, tagger_cost])
def test_two_towers_train_as_one(model):
    towers, found, names = train(SyncMultiGPUReplicatedBuilder(2), model, 2)
    [one], found_by_one, names_of_one = train(SimpleBuilder(), model, 2)
    assert names == names_of_one
    for tower in towers:
        for got, wanted in zip(tower, one, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found, found_by_one)
    if model is translator_cost:
        assert found.shape[::2] == (2 * ROWS, 3)
        assert "decoder/attention_wrapper/bahdanau_attention/attention_v" in names
    else:
        assert "transitions" in names
