"""More cells with long short-term memory: their formulas in numpy, and what they refuse."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import one_step, sigmoid
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import CoupledInputForgetGateLSTMCell, GLSTMCell, LayerNormBasicLSTMCell, NASCell


def normalised(step, name, x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / x.std(axis=1, keepdims=True) * step.weights[f"{name}/gamma"] + step.weights[f"{name}/beta"]


def test_gates_and_memory_are_normalised(rng):
    step = one_step(lambda: LayerNormBasicLSTMCell(3), rng)
    products = np.split(step.joined @ step.weights["kernel"], 4, axis=1)
    names = ("input", "transform", "forget", "output")
    enter, candidate, forget, leave = (normalised(step, *pair) for pair in zip(names, products, strict=True))
    memory = sigmoid(forget + 1) * step.states[0] + sigmoid(enter) * np.tanh(candidate)
    memory = normalised(step, "state", memory)
    output = sigmoid(leave) * np.tanh(memory)
    step.check(output, [memory, output])


def test_without_normalisation_there_is_a_bias(rng):
    step = one_step(lambda: LayerNormBasicLSTMCell(3, layer_norm=False), rng)
    products = np.split(step.joined @ step.weights["kernel"] + step.weights["bias"], 4, axis=1)
    memory = sigmoid(products[2] + 1) * step.states[0] + sigmoid(products[0]) * np.tanh(products[1])
    step.check(sigmoid(products[3]) * np.tanh(memory), [memory, sigmoid(products[3]) * np.tanh(memory)])


def test_what_begins_and_what_is_dropped_of_a_normalised_cell(graph):
    with captured_log() as lines:
        cell = LayerNormBasicLSTMCell(64, 1, 4, norm_gain=0.5, dropout_keep_prob=0.5, dropout_prob_seed=1)
    assert "got input_size, which is not used" in str(lines)
    output, _ = cell(tf.ones([1, 4]), cell.zero_state(1, tf.float32))
    gains = [variable for variable in cell.weights if variable.op.name.endswith("gamma")]
    candidate = tf.get_default_graph().get_tensor_by_name("layer_norm_basic_lstm_cell/mul_1:0")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert all((gain == 0.5).all() for gain in session.run(gains))
        share = np.mean(session.run(candidate) == 0)
    assert len(gains) == 5
    assert 0.2 < share < 0.8
    assert output.shape.as_list() == [1, 64]


@pytest.mark.parametrize("state_is_tuple", [False, True])
def test_gates_are_coupled(rng, state_is_tuple):
    def make():
        return CoupledInputForgetGateLSTMCell(
            3, True, num_proj=2, proj_clip=0.3, num_unit_shards=4, num_proj_shards=2, state_is_tuple=state_is_tuple
        )

    step = one_step(make, rng)
    weights = step.weights
    old, last = step.states if state_is_tuple else np.split(step.states[0], [3], axis=1)
    assert [weights[f"W_{index}"].shape for index in range(4)] == [(2, 9), (2, 9), (1, 9), (1, 9)]
    kernel = np.concatenate([weights[f"W_{index}"] for index in range(4)])
    products = np.concatenate([step.x, last], 1) @ kernel + weights["B"]
    candidate, forget, leave = np.split(products, 3, axis=1)
    kept = sigmoid(forget + 1 + weights["W_F_diag"] * old)
    memory = kept * old + (1 - kept) * np.tanh(candidate)
    output = sigmoid(leave + weights["W_O_diag"] * memory) * np.tanh(memory)
    output = np.clip(output @ np.concatenate([weights["W_P_0"], weights["W_P_1"]]), -0.3, 0.3)
    step.check(output, [memory, output] if state_is_tuple else [np.concatenate([memory, output], 1)])


def test_coupled_gates_are_normalised(rng):
    step = one_step(lambda: CoupledInputForgetGateLSTMCell(3, layer_norm=True), rng)
    products = np.split(step.joined @ step.weights["W_0"], 3, axis=1)
    names = ("transform", "forget", "output")
    candidate, forget, leave = (normalised(step, *pair) for pair in zip(names, products, strict=True))
    kept = sigmoid(forget + 1)
    memory = normalised(step, "state", kept * step.states[0] + (1 - kept) * np.tanh(candidate))
    step.check(sigmoid(leave) * np.tanh(memory), [memory, sigmoid(leave) * np.tanh(memory)])


def test_groups_have_matrices_of_their_own(rng):
    step = one_step(lambda: GLSTMCell(4, num_proj=2, number_of_groups=2), rng)
    weights, (old, last) = step.weights, step.states
    of_groups = []
    for index, (x, h) in enumerate(zip(np.split(step.x, 2, axis=1), np.split(last, 2, axis=1), strict=True)):
        of_groups.append(np.split(np.concatenate([x, h], 1) @ weights[f"group{index}/kernel"], 4, axis=1))
    gates = [np.concatenate(parts, 1) for parts in zip(*of_groups, strict=True)]
    enter, candidate, forget, leave = (gate + weights[f"bias_{name}"] for name, gate in zip("ijfo", gates, strict=True))
    memory = sigmoid(forget + 1) * old + sigmoid(enter) * np.tanh(candidate)
    output = (sigmoid(leave) * np.tanh(memory)) @ weights["projection/kernel"]
    step.check(output, [memory, output])


def test_the_cell_that_was_searched(rng):
    step = one_step(lambda: NASCell(3, num_proj=2, use_bias=True), rng)
    new = np.split(step.x @ step.weights["kernel"], 8, axis=1)
    old = np.split(step.states[1] @ step.weights["recurrent_kernel"] + step.weights["bias"], 8, axis=1)

    def relu(x):
        return np.maximum(x, 0)

    sums = [one + other for one, other in zip(new, old, strict=True)]
    first = np.tanh(sigmoid(sums[0]) * relu(sums[1]))
    second = np.tanh(sigmoid(sums[2]) + relu(new[3] * old[3]))
    third = np.tanh(np.tanh(sums[4]) * sigmoid(sums[5]))
    fourth = sigmoid(np.tanh(sums[6]) + sigmoid(sums[7]))
    memory = np.tanh(first + step.states[0]) * second
    output = np.tanh(memory * np.tanh(third + fourth)) @ step.weights["projection_weights"]
    step.check(output, [memory, output])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: GLSTMCell(3, number_of_groups=2), "num_units of 3: expected a multiple of number_of_groups=2"),
        (lambda: GLSTMCell(4, num_proj=3, number_of_groups=2), "num_proj of 3: expected a multiple"),
        (
            lambda: GLSTMCell(4, number_of_groups=2)(tf.zeros([1, 3]), [tf.zeros([1, 4])] * 2),
            "inputs of the last dimension of 3: expected a multiple",
        ),
        (
            lambda: CoupledInputForgetGateLSTMCell(1, num_unit_shards=9)(tf.zeros([1, 3]), [tf.zeros([1, 1])] * 2),
            "W of 4 rows was to be split into 9 shards: expected at most as many",
        ),
    ],
)
def test_what_cannot_work_is_refused(graph, act, message):
    with pytest.raises(ConfigError, match=message):
        act()
