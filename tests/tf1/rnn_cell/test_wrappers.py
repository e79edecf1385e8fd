"""Cells around a cell: what is refused, what is dropped, and what a resumed run drops."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.step.step_seeds import let_seeds_follow_steps
from tpack.tf1.rnn_cell import (
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
)
from tpack.tf1.rnn_cell.wrappers import _visited, drop, flatten_up_to
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import TowerContext

SIZE = 64


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda: DropoutWrapper(3), WrongTypeError, "DropoutWrapper got cell=3: expected an RNNCell"),
        (lambda: DropoutWrapper(GRUCell(2), 1.5), ConfigError, "input_keep_prob=1.5: expected a number of at least 0"),
        (lambda: DropoutWrapper(GRUCell(2), 1, "x"), WrongTypeError, "output_keep_prob='x': expected a number"),
        (
            lambda: DropoutWrapper(GRUCell(2), state_keep_prob=tf.constant(-1.0)),
            ConfigError,
            "state_keep_prob=-1.0: expected a number",
        ),
        (
            lambda: DropoutWrapper(GRUCell(2), 0.5, variational_recurrent=True),
            ConfigError,
            "without a dtype: expected th",
        ),
        (
            lambda: DropoutWrapper(GRUCell(2), 0.5, variational_recurrent=True, dtype=tf.float32),
            ConfigError,
            "without an input_size: expected the size of its inputs",
        ),
        (
            lambda: DropoutWrapper(GRUCell(2), dropout_state_filter_visitor=3),
            WrongTypeError,
            "dropout_state_filter_visitor=3: expected a function",
        ),
        (lambda: ResidualWrapper(GRUCell(2), 3), WrongTypeError, "residual_fn=3: expected a function"),
        (
            lambda: ResidualWrapper(GRUCell(2))(tf.zeros([1, 3]), tf.zeros([1, 2])),
            ConfigError,
            r"inputs of shape \(1, 3\) and outputs of shape \(1, 2\): expected the same, or a residual_fn",
        ),
        (lambda: flatten_up_to((True, True), (1, 2, 3)), ConfigError, "2 parts does not fit values of 3"),
    ],
)
def test_what_cannot_work_is_refused(graph, act, kind, message):
    with pytest.raises(kind, match=message):
        act()


def test_a_wrapper_has_the_sizes_and_variables_of_its_cell(graph):
    cell = LSTMCell(3)
    wrapper = DropoutWrapper(ResidualWrapper(DeviceWrapper(cell, "/device:CPU:0")))
    assert (wrapper.state_size, wrapper.output_size) == (LSTMStateTuple(3, 3), 3)
    assert wrapper.wrapped_cell.wrapped_cell.cell is cell
    output, _ = wrapper(tf.zeros([2, 3]), wrapper.zero_state(2, tf.float32), scope="here")
    assert [variable.op.name for variable in wrapper.weights] == ["here/kernel", "here/bias"]
    assert output.op.inputs[1].device == "/device:CPU:0"


def test_a_filter_says_which_parts_of_a_state_are_dropped(graph):
    Pair = collections.namedtuple("Pair", "a b")
    state = Pair(LSTMStateTuple(1, 2), {"y": [3, 4], "x": 5})

    def visitor(value):
        return LSTMStateTuple(False, True) if isinstance(value, LSTMStateTuple) else value != 4

    visited = _visited(visitor, state)
    assert visited == Pair(LSTMStateTuple(False, True), {"y": [True, False], "x": True})
    assert _visited(lambda value: not isinstance(value, LSTMStateTuple), state).a is False
    assert flatten_up_to(visited, state) == [1, 2, 5, 3, 4]


def tower(index=0):
    return TowerContext(f"tower{index}", is_training=True, index=index, total=2)


def masks_after(num_steps, make, unroll):
    """Return which outputs are zero in the step after some steps of a program that begins anew."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        let_seeds_follow_steps()
        with tower():
            outputs = unroll(make(), tf.ones([2, 2, SIZE]))
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(get_global_step_var(), num_steps))
        return session.run(outputs) == 0


def static(cell, x):
    return tf.stack(tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)[0])


def looped(cell, x):
    return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, parallel_iterations=1)[0]


def dropping(**options):
    return DropoutWrapper(BasicRNNCell(SIZE), output_keep_prob=0.5, **options)


def test_without_a_loop_a_resumed_run_drops_what_an_uninterrupted_one_would():
    first, again, later = (masks_after(number, dropping, static) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert 0.3 < np.mean(first) < 0.7
    assert not np.array_equal(first, later)
    assert not np.array_equal(first[0], first[1])


def test_masks_of_variational_dropout_are_made_before_the_loop_and_resume():
    def make():
        return dropping(variational_recurrent=True, dtype=tf.float32)

    first, again, later = (masks_after(number, make, looped) for number in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, later)
    # The same is dropped of each example, at each time.
    assert len({row.tobytes() for row in first.reshape([-1, SIZE])}) == 1


def test_inside_of_a_loop_each_time_drops_something_else():
    first = masks_after(1, dropping, looped)
    assert len({row.tobytes() for row in first.reshape([-1, SIZE])}) == 4


def test_the_c_of_a_state_is_not_dropped_and_the_next_input_may_be_computed(graph):
    tf.set_random_seed(5)
    keep = tf.placeholder_with_default(tf.constant(0.5), [])
    cell = DropoutWrapper(MultiRNNCell([LSTMCell(SIZE), GRUCell(SIZE)]), state_keep_prob=keep, output_keep_prob=keep)
    output, states = cell(tf.ones([1, 3]), cell.zero_state(1, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        shares = [np.mean(value == 0) for value in session.run([states[0].c, states[0].h, states[1], output])]
        kept = [np.mean(value == 0) for value in session.run([states[0].h, output], {keep: 1})]
    assert shares[0] == 0
    assert all(0.2 < share < 0.8 for share in shares[1:])
    assert kept == [0, 0]


def test_nothing_is_made_where_nothing_is_dropped(graph):
    x = tf.ones([2])
    assert drop(x, 1.0, None, "Test") is x
    wide = drop(tf.ones([SIZE], tf.float64), tf.constant(0.5), 1, "Test")
    with tf.Session() as session:
        assert set(session.run(wide).tolist()) == {0.0, 2.0}
