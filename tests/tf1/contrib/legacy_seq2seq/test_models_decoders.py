"""Decoders that are unrolled over a list."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import legacy_seq2seq
from tpack.tf1.rnn_cell import BasicRNNCell, GRUCell

STEPS = [np.array([[0.1, 0.2], [0.3, -0.4]], np.float32), np.array([[0.5, 0.0], [-0.2, 0.7]], np.float32)]
STATE = np.array([[0.2, -0.1], [0.0, 0.4]], np.float32)


def values_of(outputs):
    """Return the values of outputs and of all variables, with variables at random."""
    tf.set_random_seed(3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            rng = np.random.default_rng(len(variable.op.name))
            variable.load(rng.normal(size=variable.shape.as_list()).astype(np.float32), session)
        return session.run([outputs, {variable.op.name: variable for variable in tf.global_variables()}])


def test_a_loop_function_makes_all_inputs_but_the_first(graph):
    outputs = legacy_seq2seq.rnn_decoder(
        [tf.constant(step) for step in STEPS], tf.constant(STATE), BasicRNNCell(2), lambda last, step: last * step
    )

    (made, state), variables = values_of(outputs)

    kernel, bias = variables["rnn_decoder/basic_rnn_cell/kernel"], variables["rnn_decoder/basic_rnn_cell/bias"]
    first = np.tanh(np.hstack([STEPS[0], STATE]) @ kernel + bias)
    second = np.tanh(np.hstack([first, first]) @ kernel + bias)
    np.testing.assert_allclose(made, [first, second], rtol=1e-5)
    np.testing.assert_allclose(state, second, rtol=1e-5)


def test_the_symbol_with_the_best_score_is_fed(graph):
    symbols = [tf.constant([1, 2]), tf.constant([0, 0])]
    projection = np.array([[1.0, -1.0, 0.5], [0.3, 0.2, -2.0]], np.float32), np.array([0.1, 0.0, 0.2], np.float32)

    outputs = legacy_seq2seq.embedding_rnn_decoder(
        symbols, tf.constant(STATE), BasicRNNCell(2), 3, 2, output_projection=projection, feed_previous=True
    )
    (made, _), variables = values_of(outputs)

    prefix = "embedding_rnn_decoder/rnn_decoder/basic_rnn_cell"
    vectors = variables["embedding_rnn_decoder/embedding"]
    state, taken = STATE, np.array([1, 2])
    for output in made:
        joined = np.hstack([vectors[taken], state])
        state = np.tanh(joined @ variables[f"{prefix}/kernel"] + variables[f"{prefix}/bias"])
        taken = (state @ projection[0] + projection[1]).argmax(1)
        np.testing.assert_allclose(output, state, rtol=1e-5)


@pytest.mark.parametrize("looks_first", [False, True])
def test_attention_reads_states_by_each_head(graph, looks_first):
    states = np.random.default_rng(1).normal(size=(2, 3, 2)).astype(np.float32)

    outputs = legacy_seq2seq.attention_decoder(
        [tf.constant(step) for step in STEPS],
        tf.constant(STATE),
        tf.constant(states),
        BasicRNNCell(2),
        output_size=3,
        num_heads=2,
        initial_state_attention=looks_first,
    )
    (made, _), variables = values_of(outputs)

    def multiply(name, *parts):
        matrix, bias = (variables[f"attention_decoder/{name}{part}"] for part in ("kernel", "bias"))
        return np.hstack(parts) @ matrix + bias

    def look(state):
        for head in range(2):
            kernel, vector = (variables[f"attention_decoder/Attn{part}_{head}"] for part in "WV")
            hidden = states @ kernel[0, 0] + multiply(f"Attention_{head}/", state)[:, None]
            weights = np.exp((vector * np.tanh(hidden)).sum(-1))
            yield ((weights / weights.sum(1, keepdims=True))[..., None] * states).sum(1)

    state = STATE
    found = list(look(state)) if looks_first else [np.zeros((2, 2))] * 2
    for step, output in zip(STEPS, made, strict=True):
        state = np.tanh(multiply("basic_rnn_cell/", multiply("", step, *found), state))
        found = list(look(state))
        np.testing.assert_allclose(output, multiply("AttnOutputProjection/", state, *found), rtol=1e-4)


def test_attention_over_symbols_is_that_over_their_vectors(graph):
    states = tf.constant(np.random.default_rng(1).normal(size=(2, 3, 2)).astype(np.float32))
    symbols = [tf.constant([1, 2]), tf.constant([0, 0])]

    outputs, state = legacy_seq2seq.embedding_attention_decoder(
        symbols, tf.constant(STATE), states, BasicRNNCell(2), 3, 2
    )
    with tf.variable_scope("embedding_attention_decoder", reuse=True):
        embedding = tf.get_variable("embedding")
        vectors = [tf.nn.embedding_lookup(embedding, each) for each in symbols]
        wanted, _ = legacy_seq2seq.attention_decoder(vectors, tf.constant(STATE), states, BasicRNNCell(2))

    (made, same), variables = values_of([outputs, wanted])
    np.testing.assert_allclose(made, same, rtol=1e-6)
    assert variables["embedding_attention_decoder/embedding"].shape == (3, 2)
    assert state.shape.as_list() == [2, 2]


@pytest.mark.parametrize(
    ("inputs", "states", "heads", "message"),
    [
        ([], [2, 3, 2], 1, "got 0 inputs and num_heads=1"),
        ([[2, 2]], [2, 3, 2], 0, "got 1 inputs and num_heads=0"),
        ([[2, 2]], [2, 3, None], 1, "of a known size"),
        ([[2, None]], [2, 3, 2], 1, "of a known depth"),
    ],
)
def test_attention_to_unknown_sizes_is_refused(graph, inputs, states, heads, message):
    given = [tf.placeholder(tf.float32, shape) for shape in inputs]
    with pytest.raises(ConfigError, match=message):
        legacy_seq2seq.attention_decoder(given, None, tf.placeholder(tf.float32, states), GRUCell(2), num_heads=heads)


def test_a_projection_for_other_symbols_is_refused(graph):
    with pytest.raises(ConfigError, match=r"expected \[size, 5\] and \[5\]"):
        legacy_seq2seq.embedding_rnn_decoder(
            [], None, GRUCell(2), 5, 2, output_projection=(np.ones([2, 4]), np.ones([4]))
        )
