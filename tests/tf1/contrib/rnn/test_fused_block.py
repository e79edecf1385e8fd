"""Cells in one operation: outputs and gradients are those of the cells that they stand for."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import GRUBlockCell, GRUBlockCellV2, GRUCell, LSTMBlockCell, LSTMCell


def trained(make, names, unroll):
    """Return the outputs of a cell and their gradients by the cell's variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        rng = np.random.default_rng(4)
        x = tf.constant(rng.normal(size=[2, 3, 4]), tf.float32)
        outputs, state = unroll(make(), x)
        cost = tf.add_n([tf.reduce_sum(tf.sin(part)) for part in tf.nest.flatten([outputs, state])])
        variables = {v.op.name.split("/", 2)[-1]: v for v in tf.global_variables()}
        assert sorted(variables) == sorted(names)
        gradients = tf.gradients(cost, [x, *(variables[name] for name in names)])
        session.run(tf.global_variables_initializer())
        for name in names:
            variables[name].load(rng.normal(size=variables[name].shape.as_list()), session)
        return session.run([outputs, state, gradients])


def looped(cell, x):
    return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, sequence_length=tf.constant([2, 3]))


def static(cell, x):
    return tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)


LSTM = ["kernel", "bias"]
PEEPHOLES = [*LSTM, "w_i_diag", "w_f_diag", "w_o_diag"]
GRU = ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"]

PAIRS = {
    "lstm": (lambda: LSTMBlockCell(3, forget_bias=0.5), lambda: LSTMCell(3, forget_bias=0.5), LSTM, LSTM, looped),
    "lstm with peepholes": (
        lambda: LSTMBlockCell(3, use_peephole=True),
        lambda: LSTMCell(3, use_peepholes=True),
        PEEPHOLES,
        PEEPHOLES,
        static,
    ),
    "gru": (lambda: GRUBlockCellV2(3), lambda: GRUCell(3), GRU, GRU, looped),
    "gru of old": (lambda: GRUBlockCell(cell_size=3), lambda: GRUCell(3), ["w_ru", "b_ru", "w_c", "b_c"], GRU, static),
}


@pytest.mark.parametrize("name", PAIRS)
def test_one_operation_does_what_many_do(name):
    block, plain, block_names, plain_names, unroll = PAIRS[name]
    got, wanted = trained(block, block_names, unroll), trained(plain, plain_names, unroll)
    flat = zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True)
    for value, other in flat:
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)


def test_a_bound_is_kept():
    # The gradient of the operation takes no notice of it.
    got = trained(lambda: LSTMBlockCell(3, cell_clip=0.5), LSTM, static)
    wanted = trained(lambda: LSTMCell(3, cell_clip=0.5), LSTM, static)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)
    assert np.abs(got[1].c).max() == 0.5


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: GRUBlockCell(), "GRUBlockCell got num_units=None and cell_size=None: expected one of them"),
        (lambda: GRUBlockCellV2(2, 2), "GRUBlockCellV2 got num_units=2 and cell_size=2"),
        (lambda: LSTMBlockCell(2)(tf.zeros([1, 2]), tf.zeros([1, 4])), "expected an LSTMStateTuple of c and h"),
    ],
)
def test_what_cannot_work_is_refused(graph, act, message):
    with pytest.raises(ConfigError, match=message):
        act()
