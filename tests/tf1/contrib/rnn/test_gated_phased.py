"""A cell that is open in phases: how open it is when, and what is refused."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.cell_steps import sigmoid
from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn import PhasedLSTMCell


def openness(time, period, phase, on):
    cycle = np.mod(time - phase, period) / period
    is_open = np.where(cycle < 0.5 * on, 2 * cycle / on, 2 - 2 * cycle / on)
    return np.where(cycle < on, is_open, 0.001 * cycle)


def test_units_open_and_close_by_time(graph, rng):
    cell = PhasedLSTMCell(40, use_peepholes=True, ratio_on=0.4, trainable_ratio_on=False, period_init_max=9.0)
    time, x = rng.uniform(0, 20, size=[2, 1]), rng.normal(size=[2, 3])
    old, last = rng.normal(size=[2, 2, 40])
    output, state = cell((tf.constant(time), tf.constant(x)), (tf.constant(old), tf.constant(last)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        variables = {v.op.name.split("/", 1)[1]: v for v in tf.global_variables()}
        got, got_state, weights = session.run([output, state, variables])

    def linear(name, *args):
        return np.concatenate(args, 1) @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    enter, forget = np.split(sigmoid(linear("mask_gates", x, last, old)), 2, axis=1)
    memory = old * forget + enter * np.tanh(linear("new_input", x, last))
    hidden = np.tanh(memory) * sigmoid(linear("output_gate", x, last, memory))
    k = openness(time, weights["period"], weights["phase"], weights["ratio_on"])
    assert 0 < np.mean(k < 0.01) < 1
    np.testing.assert_allclose(got_state.c, k * memory + (1 - k) * old, rtol=1e-9)
    np.testing.assert_allclose(got, k * hidden + (1 - k) * last, rtol=1e-9)
    assert (weights["ratio_on"] == 0.4).all()
    assert "phased_lstm_cell/ratio_on" not in [variable.op.name for variable in tf.trainable_variables()]
    assert 1 <= weights["period"].min() < weights["period"].max() <= 9
    assert ((weights["phase"] >= 0) & (weights["phase"] <= weights["period"])).all()


def test_the_loop_and_gradients_work(graph):
    times = tf.reshape(tf.range(6.0), [2, 3, 1])
    outputs, _ = tf.nn.dynamic_rnn(PhasedLSTMCell(3), (times, tf.ones([2, 3, 4])), dtype=tf.float32)
    gradients = tf.gradients(outputs, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert all(np.isfinite(value).all() for value in session.run(gradients))
    assert len(gradients) == 9


@pytest.mark.parametrize(("low", "high"), [(0, 1), (2.0, 1.0)])
def test_periods_that_are_none_are_refused(graph, low, high):
    with pytest.raises(ConfigError, match="PhasedLSTMCell got period_init_m"):
        PhasedLSTMCell(3, period_init_min=low, period_init_max=high)
