"""Networks in both directions: against layers by hand, and what is refused."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.rnn import (
    BasicRNNCell,
    GRUCell,
    best_effort_input_batch_size,
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    transpose_batch_time,
)


def waves(shape, dtype, partition_info=None):
    return tf.constant(np.cos(np.arange(np.prod(shape))).reshape(shape), dtype)


def by_hand(x, firsts):
    """Compute two layers in numpy; return the outputs and the last states, forward and backward."""
    states = []
    for first_fw, first_bw in firsts:
        outputs = []
        for first, order in ((first_fw, 1), (first_bw, -1)):
            size = first.shape[1]
            kernel = np.cos(np.arange((x.shape[2] + size) * size)).reshape([-1, size])
            state, steps = first, []
            for step in np.swapaxes(x, 0, 1)[::order]:
                state = np.tanh(np.concatenate([step, state], 1) @ kernel)
                steps.append(state)
            outputs.append(np.stack(steps[::order], axis=1))
            states.append(state)
        x = np.concatenate(outputs, 2)
    return x, states[::2], states[1::2]


def test_each_layer_takes_both_directions_of_the_one_before(graph, rng):
    x = rng.normal(size=[2, 3, 4])
    firsts = [(rng.normal(size=[2, 3]), rng.normal(size=[2, 2])), (rng.normal(size=[2, 2]), rng.normal(size=[2, 3]))]
    options = {
        "initial_states_fw": [tf.constant(first) for first, _ in firsts],
        "initial_states_bw": [tf.constant(first) for _, first in firsts],
        "dtype": tf.float64,
    }

    def cells():
        return [BasicRNNCell(3), BasicRNNCell(2)], [BasicRNNCell(2), BasicRNNCell(3)]

    with tf.variable_scope("all", initializer=waves):
        looped = stack_bidirectional_dynamic_rnn(*cells(), tf.constant(x), **options)
        flat = stack_bidirectional_rnn(*cells(), tf.unstack(tf.constant(x), axis=1), scope="flat", **options)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run([looped, (tf.stack(flat[0], axis=1), *flat[1:])])
    wanted = tf.nest.flatten(by_hand(x, firsts))
    for result in got:
        for value, other in zip(tf.nest.flatten(result), wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-9)
    names = [variable.op.name for variable in tf.global_variables() if variable.op.name.endswith("kernel")]
    assert names == [
        f"all/{scope}/cell_{layer}/{between}{direction}/basic_rnn_cell/kernel"
        for scope, between in (("stack_bidirectional_rnn", "bidirectional_rnn/"), ("flat", ""))
        for layer in range(2)
        for direction in ("fw", "bw")
    ]


@pytest.mark.parametrize("stack", [stack_bidirectional_dynamic_rnn, stack_bidirectional_rnn])
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (([], []), ConfigError, "got 0 cells_fw, 0 cells_bw: expected as many of each, and at least one"),
        (([GRUCell], []), ConfigError, "got 1 cells_fw, 0 cells_bw"),
        ((None, [GRUCell]), WrongTypeError, "got cells_fw=None: expected a list, one for each layer"),
        (([GRUCell], [GRUCell], 3), WrongTypeError, "got initial_states_fw=3: expected a list"),
        (([GRUCell], [GRUCell], None, [1, 2]), ConfigError, "1 cells_fw, 1 cells_bw, 2 initial_states_bw"),
    ],
)
def test_what_cannot_work_is_refused(graph, stack, arguments, kind, message):
    with pytest.raises(kind, match=message):
        stack(*arguments[:2], tf.zeros([1, 1, 1]), *arguments[2:], dtype=tf.float32)
    assert not tf.get_default_graph().get_operations()[1:]


def test_batch_and_time_are_swapped(graph):
    x = tf.placeholder(tf.float32, [None, 3, 4])
    assert transpose_batch_time(x).shape.as_list() == [3, None, 4]
    value = np.arange(24).reshape([2, 3, 4])
    anything = tf.placeholder(tf.int32)
    with tf.Session() as session:
        swapped = session.run(transpose_batch_time(anything), {anything: value})
    np.testing.assert_array_equal(swapped, np.swapaxes(value, 0, 1))
    with pytest.raises(ConfigError, match="expected two dimensions or more"):
        transpose_batch_time(tf.zeros([3]))


def test_the_batch_size_is_a_number_if_any_input_knows_it(graph):
    unknown = tf.placeholder_with_default(np.zeros([3, 5, 1], np.float32), [None, None, 1])
    assert best_effort_input_batch_size([unknown, tf.zeros([3, 7, 1])]) == 7
    with tf.Session() as session:
        assert session.run(best_effort_input_batch_size([unknown])) == 5
