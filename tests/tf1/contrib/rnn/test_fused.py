"""Whole sequences at once: the same as step by step, in both directions, up to the end of each example."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    GRUCell,
    LSTMBlockFusedCell,
    LSTMBlockWrapper,
    LSTMCell,
    TimeReversedFusedRNN,
)

LENGTHS = [0, 2, 3]


def values(*tensors):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


def waves(shape, dtype, partition_info=None):
    return tf.constant(np.cos(np.arange(np.prod(shape))).reshape(shape), dtype)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("as_list", [False, True])
def test_a_fused_cell_is_the_cell_step_by_step(graph, rng, lengths, as_list):
    x = tf.constant(rng.normal(size=[3, 3, 4]), tf.float32)
    inputs = tf.unstack(x) if as_list else x
    options = {"sequence_length": None if lengths is None else tf.constant(lengths), "dtype": tf.float32}
    with tf.variable_scope("fused", initializer=waves):
        outputs, state = LSTMBlockFusedCell(3, use_peephole=True, cell_clip=0.8)(inputs, **options)
    with tf.variable_scope("plain", initializer=waves):
        cell = LSTMCell(3, use_peepholes=True, cell_clip=0.8)
        wanted = tf.nn.dynamic_rnn(cell, x, time_major=True, **options)
    assert isinstance(outputs, list) == as_list
    got, wanted = values([tf.stack(outputs) if as_list else outputs, state], wanted)
    for value, other in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("use_dynamic_rnn", [False, True])
def test_a_reversed_cell_sees_each_example_from_its_end(graph, rng, use_dynamic_rnn):
    x = rng.normal(size=[3, 3, 4]).astype("float32")
    backward = x.copy()
    for example, length in enumerate(LENGTHS):
        backward[:length, example] = x[:length, example][::-1]
    cell = FusedRNNCellAdaptor(GRUCell(2), use_dynamic_rnn)
    with tf.variable_scope("scope", initializer=waves, reuse=tf.AUTO_REUSE) as scope:
        options = {"dtype": tf.float32, "sequence_length": tf.constant(LENGTHS), "scope": scope}
        outputs, state = TimeReversedFusedRNN(cell)(tf.unstack(tf.constant(x)), **options)
        wanted, wanted_state = cell(tf.constant(backward), **options)
        everything, _ = TimeReversedFusedRNN(cell)(tf.constant(x), dtype=tf.float32, scope=scope)
        from_end, _ = cell(tf.constant(x[::-1].copy()), dtype=tf.float32, scope=scope)
    got = values(tf.stack(outputs), state, wanted, wanted_state, everything, from_end)
    for example, length in enumerate(LENGTHS):
        np.testing.assert_allclose(got[0][:length, example], got[2][:length, example][::-1], rtol=1e-5)
    np.testing.assert_allclose(got[1], got[3], rtol=1e-5)
    np.testing.assert_allclose(got[4], got[5][::-1], rtol=1e-5)


def test_what_is_missing_is_said(graph):
    with pytest.raises(ConfigError, match="got neither initial_state nor dtype: expected one of them"):
        LSTMBlockFusedCell(2)(tf.zeros([3, 2, 2]))
    with pytest.raises(ConfigError, match="expected .time, batch, depth."):
        LSTMBlockWrapper()(tf.zeros([3, 2]), dtype=tf.float32)
    with pytest.raises(NotImplementedError, match="FusedRNNCell has no __call__"):
        FusedRNNCell()(tf.zeros([1, 1, 1]))
    with pytest.raises(NotImplementedError, match="LSTMBlockWrapper has no num_units"):
        LSTMBlockWrapper()(tf.zeros([3, 2, 2]), dtype=tf.float32)
    with pytest.raises(NotImplementedError, match="LSTMBlockWrapper has no _call_cell"):
        LSTMBlockWrapper()(tf.zeros([3, 2, 2]), (tf.zeros([2, 2]), tf.zeros([2, 2])))
