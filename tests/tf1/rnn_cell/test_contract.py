"""All cells and all ways to unroll them, against TensorFlow's own cells: variables, collections, values, gradients."""

import pytest

from tests.helpers.tf1_oracle import assert_same, numbers, original, run_case

BATCH, TIME, DEPTH = 2, 3, 4


def sequences(tf, static="known", dtype="float32", name="x"):
    """Return inputs of [batch, time, depth]."""
    return numbers(tf, [BATCH, TIME, DEPTH], static, dtype, name)


def steps(tf, dtype="float32"):
    """Return inputs as a list of [batch, depth], of a batch size that is not known."""
    return [numbers(tf, [BATCH, DEPTH], [None, DEPTH], dtype, f"x{index}") for index in range(2)]


def static(tf, cell, **options):
    return tf.nn.static_rnn(cell, steps(tf), dtype=tf.float32, **options)


def one_step(tf, cell, scope):
    """Compute a step from a state that is not zero."""
    sizes = enumerate(tf.nest.flatten(cell.state_size))
    states = [numbers(tf, [BATCH, size], name=f"{scope}{index}") for index, size in sizes]
    with tf.variable_scope(scope):
        return cell(steps(tf)[0], tf.nest.pack_sequence_as(cell.state_size, states))


def plain_cells(tf):
    rnn = tf.nn.rnn_cell
    cells = [
        rnn.BasicRNNCell(3, activation=tf.nn.relu),
        rnn.GRUCell(3, activation="sigmoid", kernel_initializer=tf.ones_initializer(), name="named"),
        rnn.GRUCell(2, bias_initializer=tf.constant_initializer(0.5)),
        rnn.BasicLSTMCell(3, forget_bias=0.5, activation=tf.nn.softsign),
        rnn.BasicLSTMCell(3, state_is_tuple=False),
    ]
    return [one_step(tf, cell, f"cell{index}") for index, cell in enumerate(cells)]


def lstm_cells(tf):
    rnn = tf.nn.rnn_cell
    cells = [
        rnn.LSTMCell(3, use_peepholes=True, initializer=tf.ones_initializer()),
        rnn.LSTMCell(3, cell_clip=0.3, num_proj=2, proj_clip=0.1),
        rnn.LSTMCell(3, use_peepholes=True, num_proj=4, state_is_tuple=False, activation="relu", forget_bias=0.0),
        rnn.LSTMCell(3, num_unit_shards=3, num_proj_shards=2, num_proj=4),
    ]
    return [one_step(tf, cell, f"cell{index}") for index, cell in enumerate(cells)]


def stacked(tf):
    rnn = tf.nn.rnn_cell
    flat = rnn.MultiRNNCell([rnn.GRUCell(3), rnn.BasicRNNCell(2)], state_is_tuple=False)
    deep = rnn.MultiRNNCell([rnn.LSTMCell(3, num_proj=2), rnn.MultiRNNCell([rnn.GRUCell(2), rnn.BasicLSTMCell(2)])])
    same = rnn.MultiRNNCell([rnn.GRUCell(DEPTH)] * 2)
    return one_step(tf, flat, "flat"), static(tf, deep, scope="deep"), one_step(tf, same, "same")


def loop_with_lengths(tf):
    rnn = tf.nn.rnn_cell
    cell = rnn.MultiRNNCell([rnn.LSTMCell(3, use_peepholes=True), rnn.ResidualWrapper(rnn.GRUCell(3))])
    x = sequences(tf, [None, None, DEPTH])
    first = cell.zero_state(tf.shape(x)[0], tf.float32)
    return tf.nn.dynamic_rnn(cell, x, sequence_length=tf.constant([1, 3]), initial_state=first)


def loop_of_wide_numbers(tf):
    x = sequences(tf, dtype="float64")
    return tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(3), x, dtype=tf.float64, time_major=True)


def both_directions(tf):
    rnn = tf.nn.rnn_cell
    looped = tf.nn.bidirectional_dynamic_rnn(
        rnn.GRUCell(3), rnn.BasicLSTMCell(2), sequences(tf), sequence_length=tf.constant([2, 3]), dtype=tf.float32
    )
    flat = tf.nn.static_bidirectional_rnn(rnn.GRUCell(2), rnn.GRUCell(2), steps(tf), dtype=tf.float32, scope="flat")
    return looped, flat


def loop_of_the_users_own(tf):
    cell = tf.nn.rnn_cell.LSTMCell(3)
    inputs = tf.TensorArray(tf.float32, TIME).unstack(numbers(tf, [TIME, BATCH, DEPTH]))

    def loop_fn(time, output, state, _):
        is_over = time >= tf.constant([TIME, TIME - 1])
        x = tf.cond(tf.reduce_all(is_over), lambda: tf.zeros([BATCH, DEPTH]), lambda: inputs.read(time))
        return is_over, x, cell.zero_state(BATCH, tf.float32) if output is None else state, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    return outputs.stack(), state


def reuse(tf):
    rnn, x = tf.nn.rnn_cell, steps(tf)
    with tf.variable_scope("model"):
        first = tf.nn.static_rnn(rnn.GRUCell(3), x, dtype=tf.float32)
    with tf.variable_scope("model", reuse=True):
        second = tf.nn.static_rnn(rnn.GRUCell(3), x[:1], dtype=tf.float32)
    cell = rnn.BasicLSTMCell(2, reuse=tf.AUTO_REUSE)
    state = cell.zero_state(BATCH, tf.float32)
    with tf.variable_scope("first"):
        third = cell(x[0], state)
    with tf.variable_scope("second"):
        fourth = cell(x[1], third[1])
    other, named = rnn.BasicRNNCell(2), rnn.BasicRNNCell(2)
    return first, second, third, fourth, other(x[0], x[1][:, :2]), named(x[0], x[1][:, :2], scope="named")


def second_without_reuse(tf):
    x = steps(tf)
    return [tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(3), x, dtype=tf.float32) for _ in range(2)]


def scope_of_the_user(tf):
    def halved(getter, *args, **kwargs):
        return getter(*args, **kwargs) / 2

    scope = {"initializer": tf.ones_initializer(), "regularizer": lambda weights: tf.reduce_sum(weights * weights)}
    with tf.variable_scope("outer", custom_getter=halved, **scope):
        cells = [tf.nn.rnn_cell.LSTMCell(3, use_peepholes=True), tf.nn.rnn_cell.GRUCell(2)]
        return one_step(tf, tf.nn.rnn_cell.MultiRNNCell(cells), "inner")


def cells_of_the_user(tf):
    class Sized(tf.nn.rnn_cell.RNNCell):
        state_size = property(lambda self: (2, tf.TensorShape([3])))
        output_size = property(lambda self: 2)

    class Calls(Sized):
        def __init__(self):
            super().__init__(name="calls")

        def call(self, inputs, state):
            weight = tf.get_variable("weight", [DEPTH, 2])
            with tf.variable_scope("inner"):
                scale = tf.get_variable("scale", [], initializer=tf.ones_initializer(), trainable=False)
            output = tf.tanh(inputs @ weight + state[0]) * scale
            return output, (output, state[1] + 1)

    class Overrides(Sized):
        def __init__(self, size):
            self.size = size

        def __call__(self, inputs, state, scope=None):
            with tf.variable_scope(scope or type(self).__name__):
                output = tf.tanh(inputs[:, :2] * tf.get_variable("weight", [self.size]) + state[0])
            return output, (output, state[1])

    calls = Calls()
    outputs = static(tf, tf.nn.rnn_cell.MultiRNNCell([calls, Overrides(2)]))
    assert [weight.op.name.split("/")[-1] for weight in calls.trainable_weights] == ["weight"]
    assert [weight.op.name.split("/")[-1] for weight in calls.non_trainable_weights] == ["scale"]
    return outputs, tf.nn.dynamic_rnn(Overrides(2), sequences(tf), dtype=tf.float32, scope="loop")


def dropout(tf):
    tf.set_random_seed(7)
    rnn = tf.nn.rnn_cell
    keep = tf.placeholder_with_default(tf.constant(0.6), [])
    cell = rnn.MultiRNNCell(
        [
            rnn.DropoutWrapper(rnn.LSTMCell(5, num_proj=3), input_keep_prob=keep, state_keep_prob=0.5, seed=1),
            rnn.DropoutWrapper(rnn.GRUCell(5), output_keep_prob=0.5, state_keep_prob=keep, seed=2),
        ]
    )
    # Steps that run at the same time would take the random numbers of one another.
    return tf.nn.dynamic_rnn(cell, sequences(tf, name="loop"), dtype=tf.float32, parallel_iterations=1)


def dropout_of_some_states(tf):
    tf.set_random_seed(7)
    rnn = tf.nn.rnn_cell
    inside = rnn.MultiRNNCell([rnn.LSTMCell(4), rnn.GRUCell(4)])

    def chosen(state):
        if isinstance(state, rnn.LSTMStateTuple):
            return rnn.LSTMStateTuple(c=True, h=False)
        return True

    def second(state):
        return not isinstance(state, rnn.LSTMStateTuple)

    only_second = rnn.DropoutWrapper(inside, state_keep_prob=0.5, seed=3, dropout_state_filter_visitor=second)
    by_kind = rnn.DropoutWrapper(inside, state_keep_prob=0.5, seed=4, dropout_state_filter_visitor=chosen)
    default = rnn.DropoutWrapper(inside, state_keep_prob=0.5, seed=5)
    return [one_step(tf, cell, f"cell{index}") for index, cell in enumerate([only_second, by_kind, default])]


def dropout_by_masks(tf):
    tf.set_random_seed(7)
    rnn = tf.nn.rnn_cell
    cell = rnn.DropoutWrapper(
        rnn.MultiRNNCell([rnn.LSTMCell(4), rnn.GRUCell(4)]),
        input_keep_prob=0.5,
        output_keep_prob=0.7,
        state_keep_prob=tf.placeholder_with_default(tf.constant(0.6), []),
        variational_recurrent=True,
        input_size=DEPTH,
        dtype=tf.float32,
        seed=8,
    )
    return static(tf, cell)


def wrapped(tf):
    rnn = tf.nn.rnn_cell
    residual = rnn.ResidualWrapper(rnn.GRUCell(3), residual_fn=lambda inputs, outputs: outputs - inputs[:, :3])
    placed = rnn.DeviceWrapper(rnn.DropoutWrapper(rnn.GRUCell(2)), "/cpu:0")
    with tf.variable_scope("placed"):
        outputs = one_step(tf, residual, "residual"), one_step(tf, placed, "placed")
        return outputs, placed.zero_state(BATCH, tf.float32)


def first_states(tf):
    rnn = tf.nn.rnn_cell
    cell = rnn.MultiRNNCell([rnn.LSTMCell(3, num_proj=2), rnn.GRUCell(4)])
    x = numbers(tf, [BATCH, DEPTH], [None, DEPTH])
    flat = rnn.MultiRNNCell([rnn.GRUCell(3), rnn.GRUCell(4)], state_is_tuple=False)
    return (
        cell.zero_state(BATCH, tf.float64),
        cell.zero_state(tf.shape(x)[0], tf.float16),
        cell.get_initial_state(x),
        cell.get_initial_state(batch_size=tf.constant(3), dtype=tf.float32),
        flat.zero_state(BATCH, tf.float32),
    )


CASES = {
    case.__name__: case
    for case in (
        plain_cells,
        lstm_cells,
        stacked,
        loop_with_lengths,
        loop_of_wide_numbers,
        both_directions,
        loop_of_the_users_own,
        reuse,
        second_without_reuse,
        scope_of_the_user,
        cells_of_the_user,
        dropout,
        dropout_of_some_states,
        dropout_by_masks,
        wrapped,
        first_states,
    )
}


@pytest.fixture(scope="module")
def tf1():
    return pytest.importorskip("tpack.tf1")


@pytest.mark.parametrize("name", CASES)
def test_cells_equal_the_original(name, tf1):
    got, wanted = run_case(tf1, CASES[name]), original(__file__)[name]
    if wanted.error:
        assert wanted.error[0] in got.error[2], got.error
    else:
        assert_same(got, wanted, names=False)
