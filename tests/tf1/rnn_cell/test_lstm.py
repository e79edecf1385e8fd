"""Cells with long short-term memory: their formulas in numpy, and what they refuse."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import one_step, sigmoid
from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.rnn_cell import BasicLSTMCell, LSTMCell, LSTMStateTuple


def gates_of(step):
    return np.split(step.joined @ step.weights["kernel"] + step.weights["bias"], 4, axis=1)


def test_a_cell_forgets_takes_in_and_gives_out(rng):
    step = one_step(lambda: BasicLSTMCell(3, forget_bias=0.5), rng)
    enter, candidate, forget, leave = gates_of(step)
    memory = sigmoid(forget + 0.5) * step.states[0] + sigmoid(enter) * np.tanh(candidate)
    output = sigmoid(leave) * np.tanh(memory)
    step.check(output, [memory, output])


def test_options_of_a_cell_are_peepholes_bounds_and_a_projection(rng):
    step = one_step(lambda: LSTMCell(3, True, num_proj=2, cell_clip=0.4, proj_clip=0.3), rng)
    (enter, candidate, forget, leave), weights, old = gates_of(step), step.weights, step.states[0]
    kept = sigmoid(forget + 1 + weights["w_f_diag"] * old) * old
    memory = np.clip(kept + sigmoid(enter + weights["w_i_diag"] * old) * np.tanh(candidate), -0.4, 0.4)
    output = sigmoid(leave + weights["w_o_diag"] * memory) * np.tanh(memory) @ weights["projection/kernel"]
    step.check(np.clip(output, -0.3, 0.3), [memory, np.clip(output, -0.3, 0.3)])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_a_state_in_one_tensor_and_half_precision(rng, dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        cell = LSTMCell(3, num_proj=2, state_is_tuple=False)
        outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 3, 4], dtype), dtype=dtype)
        session.run(tf.global_variables_initializer())
        values = session.run([tf.cast(outputs, tf.float32), tf.cast(state, tf.float32)])
    assert [value.shape for value in values] == [(2, 3, 2), (2, 5)]
    assert {variable.dtype.base_dtype for variable in cell.weights} == {dtype}
    np.testing.assert_array_equal(values[0][:, -1], values[1][:, 3:])


def test_a_matrix_is_split_into_variables(graph):
    cell = LSTMCell(3, num_unit_shards=3, num_proj=2, num_proj_shards=2)
    cell(tf.zeros([2, 5]), cell.zero_state(2, tf.float32))
    shapes = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
    assert shapes == {
        "lstm_cell/kernel/part_0": [3, 12],
        "lstm_cell/kernel/part_1": [2, 12],
        "lstm_cell/kernel/part_2": [2, 12],
        "lstm_cell/bias": [12],
        "lstm_cell/projection/kernel/part_0": [2, 2],
        "lstm_cell/projection/kernel/part_1": [1, 2],
    }


def test_a_state_that_is_no_pair_is_refused(graph):
    with pytest.raises(ConfigError, match="BasicLSTMCell got the state .* expected an LSTMStateTuple of c and h"):
        BasicLSTMCell(2)(tf.zeros([2, 3]), tf.zeros([2, 4]))


def test_a_state_has_one_dtype(graph):
    assert LSTMStateTuple(tf.zeros([2]), tf.zeros([2])).dtype == tf.float32
    with pytest.raises(WrongTypeError, match="float32 for c and float64 for h"):
        LSTMStateTuple(tf.zeros([2]), tf.zeros([2], tf.float64)).dtype  # noqa: B018 (reading it is the test)
    assert repr(LSTMStateTuple(1, 2)) == "LSTMStateTuple(c=1, h=2)"
