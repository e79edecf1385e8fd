"""`BasicRNNCell` and `GRUCell`: their formulas, in numpy."""

import numpy as np
import pytest

from tests.helpers.cell_steps import one_step, sigmoid
from tpack.tf1.rnn_cell import BasicRNNCell, GRUCell


def test_a_plain_cell_is_a_matrix_and_a_function(rng):
    step = one_step(lambda: BasicRNNCell(3), rng)
    output = np.tanh(step.joined @ step.weights["kernel"] + step.weights["bias"])
    step.check(output, [output])


@pytest.mark.parametrize("bias_initializer", [None, lambda shape, dtype, partition_info: np.full(shape, 0.25)])
def test_gates_are_open_to_begin_with_unless_told_otherwise(rng, bias_initializer):
    step = one_step(lambda: GRUCell(3, bias_initializer=bias_initializer), rng, as_initialized=True)
    begins = {name: set(value.tolist()) for name, value in step.weights.items() if name.endswith("bias")}
    wanted = {"gates/bias": {1.0}, "candidate/bias": {0.0}}
    assert begins == (wanted if bias_initializer is None else dict.fromkeys(wanted, {0.25}))


def test_a_gru_gates_what_it_multiplies_and_what_stays(rng):
    step = one_step(lambda: GRUCell(3), rng)
    weights, (state,) = step.weights, step.states
    reset, update = np.split(sigmoid(step.joined @ weights["gates/kernel"] + weights["gates/bias"]), 2, axis=1)
    joined = np.concatenate([step.x, reset * state], 1)
    candidate = np.tanh(joined @ weights["candidate/kernel"] + weights["candidate/bias"])
    output = update * state + (1 - update) * candidate
    step.check(output, [output])
