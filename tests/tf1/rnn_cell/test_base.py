"""The base of cells: how they refuse what is wrong, what they remember, and that K towers equal one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.tf1.rnn_cell import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell, MultiRNNCell, ResidualWrapper, RNNCell
from tpack.tf1.rnn_cell.base import CellOfCells
from tpack.tower.context import current_tower_context

TOWER_BATCH, TIME, DEPTH = 2, 3, 4


class Bare(RNNCell):
    state_size = property(lambda self: tf.TensorShape([None]))
    output_size = property(lambda self: 2)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: GRUCell(2)(tf.zeros([2, 3, 3]), tf.zeros([2, 2])), "expected 2 dimensions"),
        (lambda: GRUCell(2)(tf.placeholder(tf.float32, [2, None]), tf.zeros([2, 2])), "a known last dimension"),
        (
            lambda: GRUCell(2)(tf.zeros([2, 3], tf.int32), tf.zeros([2, 2])),
            "GRUCell got dtype int32: expected one of fl",
        ),
        (lambda: BasicLSTMCell(2, dtype=tf.int64), "BasicLSTMCell got dtype int64"),
        (lambda: GRUCell(0), "GRUCell got num_units=0: expected an integer of at least 1"),
        (lambda: GRUCell(2, activation="nope"), "activation='nope': expected a function or one of linear, elu"),
        (lambda: GRUCell(2).get_initial_state(batch_size=3), "got batch_size=3 and dtype=None without inputs"),
        (lambda: GRUCell(2).get_initial_state(tf.zeros([3, 1]), 4), "got batch_size=4 with inputs of 3"),
        (lambda: GRUCell(2).get_initial_state(tf.zeros([3, 1]), dtype="float16"), "float16 with inputs of float32"),
        (lambda: Bare().zero_state(2, tf.float32), "zero_state got the shape .*: expected known sizes"),
    ],
)
def test_what_cannot_work_is_refused(graph, act, message):
    with pytest.raises(ConfigError, match=message):
        act()
    assert not tf.global_variables()


def test_what_is_no_cell_or_activation_is_refused(graph):
    with pytest.raises(WrongTypeError, match="cells.1.=3: expected an RNNCell, and it lacks an output_size, a st"):
        MultiRNNCell([GRUCell(2), 3])
    with pytest.raises(WrongTypeError, match="cell=the class GRUCell: .* it lacks a __call__"):
        ResidualWrapper(GRUCell)
    with pytest.raises(WrongTypeError, match="activation=3: expected a function or a name"):
        GRUCell(2, activation=3)


def test_a_base_says_what_a_cell_has_to_say(graph):
    with pytest.raises(NotImplementedError, match="RNNCell has no state_size"):
        RNNCell().state_size  # noqa: B018 (reading it is the test)
    with pytest.raises(NotImplementedError, match="RNNCell has no output_size"):
        RNNCell().output_size  # noqa: B018
    with pytest.raises(NotImplementedError):
        CellOfCells().weights  # noqa: B018


@pytest.mark.parametrize("activation", ["linear", "", None, tf.nn.relu])
def test_an_activation_is_a_function_or_a_name(graph, activation):
    cell = BasicRNNCell(2, activation=activation)
    x = np.array([[0.5, -0.25]], np.float32)
    output, _ = cell(tf.constant(x), tf.zeros([1, 2]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        cell.weights[0].load(np.eye(4, 2, dtype=np.float32), session)
        wanted = {"linear": x, tf.nn.relu: np.maximum(x, 0)}.get(activation, np.tanh(x))
        np.testing.assert_allclose(session.run(output), wanted, rtol=1e-6)


def test_a_cell_is_told_by_its_parts_and_not_by_its_class(graph):
    class Counter:
        state_size, output_size = 1, 1

        def zero_state(self, batch_size, dtype):
            return tf.zeros([batch_size, 1], dtype)

        def __call__(self, inputs, state, scope=None):
            return state, state + 1

    cell = MultiRNNCell([Counter(), Counter()])
    _, states = tf.nn.static_rnn(cell, [tf.zeros([2, 1])] * 3, dtype=tf.float32)
    with tf.Session() as session:
        assert np.array(session.run(states)).tolist() == [[[3], [3]], [[3], [3]]]
    assert cell.weights == []


def waves(shape, dtype, partition_info=None):
    """Initialize with numbers that differ."""
    return tf.constant(np.cos(np.arange(np.prod(shape))).reshape(shape), dtype)


def cost_of(x):
    """Return the cost of a network of cells of several kinds."""
    cell = MultiRNNCell([LSTMCell(3, use_peepholes=True), ResidualWrapper(GRUCell(3))])
    lengths = tf.cast(x[:, 0, 0] > 0, tf.int32) + 2
    with tf.variable_scope("net", initializer=waves):
        output, _ = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype, sequence_length=lengths)
    return tf.reduce_mean(tf.square(output - 0.1))


def trained(builder, num_towers):
    """Train for two steps on the data of some towers; return {name: value} for each tower."""
    data = np.random.default_rng(3).normal(size=[num_towers * TOWER_BATCH, TIME, DEPTH])
    with tf.Graph().as_default() as graph:

        def grad_fn():
            tower = current_tower_context()
            rows = len(data) // tower.total
            cost = cost_of(tf.constant(data[tower.index * rows : (tower.index + 1) * rows]))
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
        result = builder.build(grad_fn, lambda: optimizer)
        with cpu_session(graph, num_cpus=num_towers, rewrites=False) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run([] if result.init_op is None else result.init_op)
            for _ in range(2):
                session.run(result.train_op)
            return [values_in(tower, session) for tower in result.towers]


def values_in(tower, session):
    """Return the values of a tower's variables by their names in it."""
    variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    names = [variable.op.name[len(tower.vs_name) :].lstrip("/") for variable in variables]
    return dict(zip(names, session.run(variables), strict=True))


@pytest.mark.parametrize("kind", [SyncMultiGPUReplicatedBuilder, SyncMultiGPUParameterServerBuilder])
def test_two_towers_equal_one(kind):
    (wanted,) = trained(SimpleBuilder(), 2)
    towers = trained(kind(2), 2)
    assert "net/rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel" in wanted
    for values in towers:
        assert values.keys() == wanted.keys()
        for name, value in values.items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-11, err_msg=name)
