"""Encoder and decoder in one: their variables are those of TensorFlow 1.15, and their parts are those of decoders.

``tests/trials/tensorflow_1_rnn.py`` compares all of them with the real one.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import legacy_seq2seq
from tpack.tf1.rnn_cell import GRUCell

READ = [np.array([1, 2]), np.array([0, 3]), np.array([2, 2])]
GIVEN = [np.array([1, 1]), np.array([2, 0])]
READER = "rnn/embedding_wrapper"
WRITER = "output_projection_wrapper"


def names():
    return {(v.op.name, tuple(v.shape.as_list())) for v in tf.global_variables()}


def cell_of(prefix, depth):
    parts = (
        ("gates/kernel", (depth, 6)),
        ("gates/bias", (6,)),
        ("candidate/kernel", (depth, 3)),
        ("candidate/bias", (3,)),
    )
    return {(f"{prefix}/gru_cell/{name}", shape) for name, shape in parts}


def symbols():
    return [tf.constant(each, tf.int32) for each in READ], [tf.constant(each, tf.int32) for each in GIVEN]


def test_variables_of_a_model_of_symbols(graph):
    outputs, state = legacy_seq2seq.embedding_rnn_seq2seq(*symbols(), GRUCell(3), 4, 5, 2)

    writer = f"embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/{WRITER}"
    assert names() == {
        (f"embedding_rnn_seq2seq/{READER}/embedding", (4, 2)),
        *cell_of(f"embedding_rnn_seq2seq/{READER}", 5),
        ("embedding_rnn_seq2seq/embedding_rnn_decoder/embedding", (5, 2)),
        *cell_of(writer, 5),
        (f"{writer}/kernel", (3, 5)),
        (f"{writer}/bias", (5,)),
    }
    assert [output.shape.as_list() for output in [*outputs, state]] == [[2, 5], [2, 5], [2, 3]]


def test_variables_of_a_model_with_attention(graph):
    outputs, _ = legacy_seq2seq.embedding_attention_seq2seq(*symbols(), GRUCell(3), 4, 5, 2)

    whole = "embedding_attention_seq2seq"
    decoder = f"{whole}/embedding_attention_decoder/attention_decoder"
    assert names() == {
        (f"{whole}/{READER}/embedding", (4, 2)),
        *cell_of(f"{whole}/{READER}", 5),
        (f"{whole}/embedding_attention_decoder/embedding", (5, 2)),
        (f"{decoder}/AttnW_0", (1, 1, 3, 3)),
        (f"{decoder}/AttnV_0", (3,)),
        (f"{decoder}/kernel", (5, 2)),
        (f"{decoder}/bias", (2,)),
        *cell_of(f"{decoder}/{WRITER}", 5),
        (f"{decoder}/{WRITER}/kernel", (3, 5)),
        (f"{decoder}/{WRITER}/bias", (5,)),
        (f"{decoder}/Attention_0/kernel", (3, 3)),
        (f"{decoder}/Attention_0/bias", (3,)),
        (f"{decoder}/AttnOutputProjection/kernel", (8, 5)),
        (f"{decoder}/AttnOutputProjection/bias", (5,)),
    }
    assert [output.shape.as_list() for output in outputs] == [[2, 5], [2, 5]]


def test_variables_of_models_of_vectors(graph):
    steps = [tf.ones([2, 4]) for _ in range(3)]

    legacy_seq2seq.basic_rnn_seq2seq(steps, steps[:2], GRUCell(3))
    legacy_seq2seq.tied_rnn_seq2seq(steps, steps[:2], GRUCell(3))

    assert names() == {
        *cell_of("basic_rnn_seq2seq/rnn", 7),
        *cell_of("basic_rnn_seq2seq/rnn_decoder", 7),
        *cell_of("combined_tied_rnn_seq2seq/tied_rnn_seq2seq", 7),
    }


def test_variables_of_several_decoders(graph):
    read, given = symbols()
    outputs, states = legacy_seq2seq.one2many_rnn_seq2seq(
        read, {"a": given, "b": read}, GRUCell(3), {"a": GRUCell(3), "b": GRUCell(3)}, 4, {"a": 5, "b": 6}, 2
    )

    assert {name: [output.shape.as_list() for output in made] for name, made in outputs.items()} == {
        "a": [[2, 5]] * 2,
        "b": [[2, 6]] * 3,
    }
    assert set(states) == {"a", "b"}
    writer = f"one2many_rnn_seq2seq/one2many_decoder_b/embedding_rnn_decoder/rnn_decoder/{WRITER}"
    assert {(f"{writer}/kernel", (3, 6)), (f"one2many_rnn_seq2seq/{READER}/embedding", (4, 2))} < names()


MODELS = {
    "rnn": lambda feed: legacy_seq2seq.embedding_rnn_seq2seq(*symbols(), GRUCell(3), 4, 5, 2, feed_previous=feed),
    "attention": lambda feed: legacy_seq2seq.embedding_attention_seq2seq(
        *symbols(), GRUCell(3), 4, 5, 2, feed_previous=feed
    ),
    "tied": lambda feed: legacy_seq2seq.embedding_tied_rnn_seq2seq(*symbols(), GRUCell(3), 5, 2, feed_previous=feed),
}


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_tensor_says_whether_symbols_are_fed(graph, kind):
    switch = tf.placeholder(tf.bool, [])
    with tf.variable_scope("model"):
        chosen = MODELS[kind](switch)
    with tf.variable_scope("model", reuse=True):
        wanted = {feed: MODELS[kind](feed) for feed in (True, False)}

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for feed, fixed in wanted.items():
            found, same = session.run([chosen, fixed], {switch: feed})
            for left, right in zip(tf.nest.flatten(found), tf.nest.flatten(same), strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
