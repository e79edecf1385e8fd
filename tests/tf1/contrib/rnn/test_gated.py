"""More gated cells: their formulas in numpy, and what they refuse."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import DEPTH, one_step, sigmoid
from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import IndRNNCell, IndyGRUCell, IndyLSTMCell, IntersectionRNNCell, SRUCell, UGRNNCell


def test_one_gate_says_how_much_stays(rng):
    step = one_step(lambda: UGRNNCell(3, forget_bias=0.5), rng)
    gate, candidate = np.split(step.joined @ step.weights["kernel"] + step.weights["bias"], 2, axis=1)
    kept = sigmoid(gate + 0.5)
    state = kept * step.states[0] + (1 - kept) * np.tanh(candidate)
    step.check(state, [state])


def test_an_initializer_is_that_of_all_matrices(rng):
    for make in (
        lambda: UGRNNCell(3, initializer=tf.ones_initializer()),
        lambda: IntersectionRNNCell(3, 3, initializer=tf.ones_initializer()),
    ):
        weights = one_step(make, rng, as_initialized=True).weights
        kernels = [value for name, value in weights.items() if name.endswith("kernel")]
        assert kernels
        assert all((kernel == 1).all() for kernel in kernels)


@pytest.mark.parametrize("num_units", [3, DEPTH])
def test_the_output_has_a_gate_to_the_inputs(rng, num_units):
    step = one_step(lambda: IntersectionRNNCell(num_units, num_in_proj=num_units), rng)
    x, (state,), weights = step.x, step.states, step.weights
    assert ("in_projection/kernel" in weights) == (num_units != DEPTH)
    if num_units != DEPTH:
        x = x @ weights["in_projection/kernel"] + weights["in_projection/bias"]
    products = np.concatenate([x, state], 1) @ weights["kernel"] + weights["bias"]
    state_gate, new, output_gate, output = np.split(products, 4, axis=1)
    kept, passed = sigmoid(state_gate + 1), sigmoid(output_gate + 1)
    new_state = kept * state + (1 - kept) * np.tanh(new)
    step.check(passed * x + (1 - passed) * np.maximum(output, 0), [new_state])


def test_inputs_of_another_size_are_refused(graph):
    with pytest.raises(
        ConfigError, match="inputs of depth 2, num_units=3 and num_in_proj=None: expected num_in_proj=3"
    ):
        IntersectionRNNCell(3)(tf.zeros([1, 2]), tf.zeros([1, 3]))


def test_a_simple_unit_multiplies_no_matrix_with_the_state(rng):
    step = one_step(lambda: SRUCell(3), rng)
    candidate, forget, reset, passed = np.split(step.x @ step.weights["kernel"], 4, axis=1)
    gates = sigmoid(np.concatenate([forget, reset], 1) + step.weights["bias"])
    forget, reset = np.split(gates, 2, axis=1)
    memory = forget * step.states[0] + (1 - forget) * candidate
    step.check(reset * np.tanh(memory) + (1 - reset) * passed, [memory])


def of_units(step, state, prefix="", kernel="kernel_w"):
    weights = step.weights
    return step.x @ weights[prefix + kernel] + state * weights[f"{prefix}kernel_u"] + weights[f"{prefix}bias"]


def test_units_are_independent(rng):
    step = one_step(lambda: IndRNNCell(3), rng)
    output = np.tanh(of_units(step, step.states[0]))
    step.check(output, [output])


def test_units_of_a_gru_are_independent(rng):
    step = one_step(lambda: IndyGRUCell(3), rng)
    (state,) = step.states
    reset, update = np.split(sigmoid(of_units(step, np.tile(state, [1, 2]), "gates/")), 2, axis=1)
    candidate = np.tanh(of_units(step, reset * state, "candidate/", "kernel"))
    output = update * state + (1 - update) * candidate
    step.check(output, [output])


def test_units_of_an_lstm_are_independent(rng):
    step = one_step(lambda: IndyLSTMCell(3, forget_bias=0.5), rng)
    memory, last = step.states
    enter, candidate, forget, leave = np.split(of_units(step, np.tile(last, [1, 4])), 4, axis=1)
    memory = sigmoid(forget + 0.5) * memory + sigmoid(enter) * np.tanh(candidate)
    output = sigmoid(leave) * np.tanh(memory)
    step.check(output, [memory, output])


def test_what_gates_begin_with(rng):
    weights = one_step(lambda: IndyGRUCell(64), rng, as_initialized=True).weights
    assert set(weights["gates/bias"].tolist()) == {1.0}
    assert set(weights["candidate/bias"].tolist()) == {0.0}
    factors = weights["gates/kernel_u"]
    assert -1 < factors.min() < -0.5 < 0.5 < factors.max() < 1
