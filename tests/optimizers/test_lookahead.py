import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import one_tower, train
from tests.helpers.sessions import cpu_session
from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder
from tpack.optimizers.lookahead import Lookahead
from tpack.tfutils.optimizer import AccumGradOptimizer
from tpack.tfutils.sessinit import DictRestore
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer


def cost_of(w, table):
    return tf.reduce_sum(tf.sin(w) * [1.0, 2.0, 3.0]) + tf.reduce_sum(tf.square(tf.gather(table, [1, 3, 1])))


def train_op_of(make):
    w = tf.get_variable("w", initializer=[0.5, -0.25, 1.0], use_resource=True)
    table = tf.get_variable("table", initializer=tf.reshape(tf.range(8.0), [4, 2]), use_resource=True)
    return make().minimize(cost_of(w, table)), [w, table]


def steps_of(make, steps, path=None, *, restores=False):
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        train_op, variables = train_op_of(make)
        session.run(tf.global_variables_initializer())
        if restores:
            tf.train.Saver().restore(session, path)
        found = []
        for _ in range(steps):
            session.run(train_op)
            found.append(session.run(variables))
        if path:
            tf.train.Saver().save(session, path)
        return found


def reference(steps, period, share):
    """Gradient descent with momentum and slow weights, in numpy."""
    values = [np.array([0.5, -0.25, 1.0]), np.arange(8.0).reshape(4, 2)]
    slow, momentum, found = [v.copy() for v in values], [0.0, 0.0], []
    for step in range(1, steps + 1):
        table = np.zeros((4, 2))
        np.add.at(table, [1, 3, 1], 2 * values[1][[1, 3, 1]])
        gradients = [np.cos(values[0]) * [1, 2, 3], table]
        momentum = [0.9 * m + g for m, g in zip(momentum, gradients, strict=True)]
        values = [v - 0.1 * m for v, m in zip(values, momentum, strict=True)]
        if step % period == 0:
            slow = [s + share * (v - s) for s, v in zip(slow, values, strict=True)]
            values = [s.copy() for s in slow]
        found.append(values)
    return found


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


@pytest.mark.parametrize(("period", "share"), [(3, 0.5), (2, 0.8), (1, 0.25), (5, 1.0)])
def test_steps_are_those_of_the_formula(period, share):
    found = steps_of(lambda: Lookahead(momentum(), period, share), 11)
    for got, wanted in zip(found, reference(11, period, share), strict=True):
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_a_restored_one_goes_on_in_the_middle_of_a_period(tmp_path):
    def make():
        return Lookahead(tf.train.AdamOptimizer(0.1), 3)

    whole = steps_of(make, 8)
    path = str(tmp_path / "model")
    steps_of(make, 4, path)
    for one, other in zip(steps_of(make, 4, path, restores=True)[-1], whole[-1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_slow_weights_begin_where_restored_weights_are(log_dir):
    class Slow(Line):
        def optimizer(self):
            return Lookahead(tf.train.GradientDescentOptimizer(0.0), 1, 0.5)

    recorder = Recorder()
    config = TrainConfig(
        model=Slow(),
        data=line_input(),
        callbacks=[recorder],
        session_init=DictRestore({"w": np.float32(8), "b": np.float32(4)}),
        steps_per_epoch=3,
        max_epoch=1,
    )
    launch_train_with_config(config, SimpleTrainer())
    assert recorder.weights["w"] == 8
    assert recorder.weights["b"] == 4


def test_three_towers_equal_one():
    def make():
        return Lookahead(tf.train.AdamOptimizer(0.05), 2)

    run, [oracle] = train(SyncMultiGPUReplicatedBuilder(3), make, 3, rewrites=False), one_tower(make, 3).weights
    for tower in run.weights:
        for name, value in tower.items():
            np.testing.assert_allclose(value, oracle[name], rtol=1e-9, atol=1e-11, err_msg=name)


def test_asynchronous_towers_train():
    run = train(AsyncMultiGPUBuilder(2), lambda: Lookahead(momentum(), 2), 2)
    assert np.isfinite(run.costs).all()


def test_it_goes_with_accumulated_gradients():
    """Inside of the accumulation it counts applied steps, around it small batches."""
    inside = steps_of(lambda: AccumGradOptimizer(Lookahead(momentum(), 3, 0.5), 2), 6)
    np.testing.assert_array_equal(inside[0][0], np.float32([0.5, -0.25, 1.0]))
    plain = steps_of(lambda: AccumGradOptimizer(momentum(), 2), 6)
    np.testing.assert_array_equal(inside[3][0], plain[3][0])
    np.testing.assert_allclose(inside[5][0], np.array([0.5, -0.25, 1]) / 2 + plain[5][0] / 2, rtol=1e-5)


def test_wrong_uses_are_errors(graph):
    with pytest.raises(ConfigError, match="sync_period=0"):
        Lookahead(momentum(), 0)
    with pytest.raises(ConfigError, match="slow_step=1.5"):
        Lookahead(momentum(), slow_step=1.5)
    w = tf.get_variable("w", [], use_resource=True)
    with pytest.raises(GraphBuildError, match="Lookahead got no gradients"):
        Lookahead(momentum()).apply_gradients([(None, w)])


def test_its_variables_are_known(graph):
    optimizer = Lookahead(momentum(), 2)
    w = tf.get_variable("w", [2], use_resource=True)
    optimizer.apply_gradients([(tf.ones_like(w), w)])
    assert {v.op.name for v in optimizer.variables()} == {"w/Momentum", "w/Lookahead", "Lookahead_counter"}
