"""Cells of grids: the formula, and the shapes that are refused."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import one_step, sigmoid
from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell, ConvLSTMCell

SIDE = 5


def convolved(x, kernel):
    """Return the convolution of [batch, length, channels], of the same length."""
    size = len(kernel)
    padded = np.pad(x, [(0, 0), (size // 2, size // 2), (0, 0)])
    return sum(padded[:, shift : shift + x.shape[1]] @ kernel[shift] for shift in range(size))


@pytest.mark.parametrize("skip_connection", [False, True])
def test_gates_come_of_a_convolution(rng, skip_connection):
    shape = (SIDE, 2)

    def make():
        options = {"input_shape": shape, "output_channels": 3, "kernel_shape": [3]}
        return Conv1DLSTMCell(skip_connection=skip_connection, **options)

    step = one_step(make, rng, shape=shape)
    gates = convolved(step.joined, step.weights["kernel"]) + step.weights["biases"]
    enter, candidate, forget, leave = np.split(gates, 4, axis=-1)
    memory = sigmoid(forget + 1) * step.states[0] + sigmoid(enter) * np.tanh(candidate)
    hidden = sigmoid(leave) * np.tanh(memory)
    step.check(np.concatenate([hidden, step.x], -1) if skip_connection else hidden, [memory, hidden])


@pytest.mark.parametrize(("kind", "ndims"), [(Conv2DLSTMCell, 2), (Conv3DLSTMCell, 3)])
def test_images_and_volumes_go_through_a_loop(graph, kind, ndims):
    shape = [SIDE] * ndims + [2]
    cell = kind(input_shape=shape, output_channels=3, kernel_shape=[3] * ndims, skip_connection=True, use_bias=False)
    outputs, state = tf.nn.dynamic_rnn(cell, tf.zeros([1, 2, *shape]), dtype=tf.float32)
    assert outputs.shape.as_list() == [1, 2, *shape[:-1], 5]
    assert state.h.shape.as_list() == [1, *shape[:-1], 3]
    assert [v.op.name for v in cell.weights] == [f"rnn/conv_{ndims}d_lstm_cell/kernel"]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: ConvLSTMCell(4, [1] * 5, 1, [1] * 4), "conv_ndims=4: expected one of 1, 2, 3"),
        (lambda: ConvLSTMCell(2, [1, 1], 1, [1, 1]), r"input_shape=\(1, 1\): expected 3 dimensions"),
        (lambda: ConvLSTMCell(1, [1, 1], 1, [1, 1]), "kernel_shape=.1, 1.: expected 1 dimensions"),
        (
            lambda: ConvLSTMCell(1, [1, 1], 1, [1])(tf.zeros([1, 1]), [tf.zeros([1, 1, 1])] * 2),
            r"got inputs of \(1, 1\): expected 3 dimensions",
        ),
    ],
)
def test_what_cannot_work_is_refused(graph, act, message):
    with pytest.raises(ConfigError, match=message):
        act()
