"""More cells around a cell: their formulas in numpy, and what they refuse."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import BATCH, DEPTH, one_step, sigmoid
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import (
    AttentionCellWrapper,
    BasicLSTMCell,
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    OutputProjectionWrapper,
    RNNCell,
)


class Adding(RNNCell):
    """Adds the sum of the inputs to the state; its variable says where it is."""

    def __init__(self, size=3):
        super().__init__(name="adding")
        self.state_size = self.output_size = size

    state_size = output_size = None

    def call(self, inputs, state):
        factor = tf.get_variable("factor", [], inputs.dtype)
        output = state + factor * tf.reduce_sum(inputs, 1, keepdims=True)
        return output, output


def added(step, x, state):
    return state + step.weights["adding/factor"] * x.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("state_is_tuple", [False, True])
def test_a_cell_attends_to_its_last_outputs(rng, state_is_tuple):
    length, size, compared = 2, 5, 6

    def make():
        return AttentionCellWrapper(Adding(), length, size, compared, input_size=7, state_is_tuple=state_is_tuple)

    step = one_step(make, rng)
    weights = step.weights
    cell_state, attended, flat = step.states if state_is_tuple else np.split(step.states[0], [3, 3 + size], axis=1)
    past = flat.reshape([BATCH, length, size])
    joined = np.concatenate([step.x, attended], 1) @ weights["kernel"] + weights["bias"]
    cell_state = added(step, joined, cell_state)
    query = cell_state @ weights["attention/kernel"] + weights["attention/bias"]
    scores = weights["attention/attn_v"] * np.tanh(past @ weights["attention/attn_w"][0, 0] + query[:, np.newaxis])
    scores = np.exp(scores.sum(axis=2))
    attended = (past * (scores / scores.sum(axis=1, keepdims=True))[..., np.newaxis]).sum(axis=1)
    joined = np.concatenate([cell_state, attended], 1)
    output = joined @ weights["attn_output_projection/kernel"] + weights["attn_output_projection/bias"]
    kept = np.concatenate([past[:, 1:], output[:, np.newaxis]], 1).reshape([BATCH, -1])
    states = [cell_state, attended, kept]
    step.check(output, states if state_is_tuple else [np.concatenate(states, 1)])


def test_matrices_before_and_after_a_cell(rng):
    step = one_step(lambda: InputProjectionWrapper(Adding(), 2, tf.nn.relu), rng)
    projected = np.maximum(step.x @ step.weights["kernel"] + step.weights["bias"], 0)
    output = added(step, projected, step.states[0])
    step.check(output, [output])
    step = one_step(lambda: OutputProjectionWrapper(Adding(), 2, tf.nn.relu), rng)
    state = added(step, step.x, step.states[0])
    step.check(np.maximum(state @ step.weights["kernel"] + step.weights["bias"], 0), [state])


@pytest.mark.parametrize("is_coupled", [False, True])
def test_a_highway_leads_around_a_cell(rng, is_coupled):
    # It has no scope of its own, as in TensorFlow 1.15.
    step = one_step(lambda: HighwayWrapper(Adding(DEPTH), is_coupled, 0.5), rng)
    weights = {name.rpartition("/")[2]: value for name, value in step.weights.items()}
    inside = step.states[0] + weights["factor"] * step.x.sum(axis=1, keepdims=True)
    carried = sigmoid(step.x @ weights["carry_w"] + weights["carry_b"])
    taken = 1 - carried if is_coupled else sigmoid(step.x @ weights["transform_w"] + weights["transform_b"])
    step.check(step.x * carried + inside * taken, [inside])


def test_vectors_of_classes_are_looked_up(graph):
    cell = EmbeddingWrapper(Adding(), 50, 20)
    ids = tf.constant([[4], [7]])
    output, _ = cell(ids, cell.zero_state(2, tf.float32))
    vectors, factor = tf.global_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        table, by, got = session.run([vectors, factor, output])
    np.testing.assert_allclose(got[:, 0], by * table[[4, 7]].sum(axis=1), rtol=1e-5)
    assert 1.6 < np.abs(table).max() <= 3**0.5
    assert vectors.device == "/device:CPU:0"
    assert [variable.op.name for variable in cell.weights] == [
        "embedding_wrapper/embedding",
        "embedding_wrapper/adding/factor",
    ]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: AttentionCellWrapper(BasicLSTMCell(2), 2, state_is_tuple=False),
            "a state of LSTMStateTuple.c=2, h=2.: expected a cell whose state is one tensor",
        ),
        (lambda: AttentionCellWrapper(GRUCell(2), 0), "attn_length=0: expected an integer of at least 1"),
        (
            lambda: HighwayWrapper(GRUCell(2))(tf.zeros([1, 3]), tf.zeros([1, 2])),
            r"inputs of \(1, 3\) and outputs of \(1, 2\): expected one",
        ),
    ],
)
def test_what_cannot_work_is_refused(graph, act, message):
    with pytest.raises(ConfigError, match=message):
        act()


def test_an_argument_that_is_not_used_is_warned_of(graph):
    with captured_log() as lines:
        InputProjectionWrapper(GRUCell(2), 2, input_size=3)
    assert "InputProjectionWrapper got input_size, which is not used" in str(lines)
