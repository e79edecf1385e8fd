"""Copies of a forward pass: gradients at moved weights equal a second call of the model, recomputed ones the first."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.toy_training import Recorder
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.input_source.tensors import TensorInput
from tpack.models import BatchNorm, Conv2D, Dropout, FullyConnected, GlobalAvgPooling
from tpack.optimizers.guards import SpikeGuard
from tpack.optimizers.rerouting import SAM, Recompute
from tpack.optimizers.unfreezing import Unfreeze
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import BuilderTrainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated

RATE = 0.1


def sgd():
    return tf.train.GradientDescentOptimizer(RATE)


class Blocks(ModelDesc):
    """Residual blocks with normalisation and dropout."""

    def __init__(self, wrap):
        self._wrap = wrap

    def inputs(self):
        return [tf.TensorSpec([8, 6, 6, 4], tf.float32, "x")]

    def build_graph(self, x):
        target = x[:, 0, 0, :1]
        for number in range(3):
            with tf.variable_scope(f"group/block{number}"):
                y = BatchNorm("bn", Conv2D("conv1", x, 4, 3))
                y = Dropout("drop", tf.nn.relu(y), rate=0.5)
                x = tf.nn.relu(x + Conv2D("conv2", y, 4, 3), name="out")
        return tf.reduce_mean(tf.square(FullyConnected("fc", GlobalAvgPooling("gap", x), 1) - target), name="cost")

    def optimizer(self):
        return self._wrap(tf.train.MomentumOptimizer(RATE, 0.9))


def data():
    images = np.random.default_rng(3).normal(size=(8, 6, 6, 4)).astype("float32")
    return TensorInput(lambda: [tf.constant(images)], size=3)


def trained(wrap, trainer, **options):
    with tf.Graph().as_default():
        recorder = Recorder()
        config = TrainConfig(
            model=Blocks(wrap), data=data(), callbacks=[recorder], steps_per_epoch=3, max_epoch=1, seed=1, **options
        )
        made = trainer()
        launch_train_with_config(config, made)
        return recorder.weights, made.graph


@pytest.mark.parametrize(
    "trainer",
    [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(4), lambda: SyncMultiGPUTrainerParameterServer(3)],
    ids=["one", "replicated", "shared"],
)
def test_recomputed_gradients_are_the_same_to_the_last_bit(log_dir, trainer):
    plain, _ = trained(lambda opt: opt, trainer)
    again, graph = trained(lambda opt: Recompute(opt, "group/block[0-9]"), trainer)
    assert plain.keys() == again.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    copies = [op for op in graph.get_operations() if "recomputed/group/block1/" in op.name]
    # Draws of dropout are made again by their step and place, those of others not at all.
    assert {"Conv2D", "Relu", "StatelessRandomUniformV2"} <= {op.type for op in copies}
    assert not [op for op in copies if "Assign" in op.type or op.type == "ReadVariableOp"]


def test_copies_wait_for_the_gradients_of_later_blocks(log_dir):
    _, graph = trained(lambda opt: Recompute(opt, "group/block[0-9]"), SimpleTrainer)
    kept = [op for op in graph.get_operations() if op.name.startswith("recomputed/group/block0/kept")]
    waits = {op.name for each in kept for op in each.control_inputs}
    assert kept
    assert waits
    assert all(name.startswith("gradients/") for name in waits)
    used = [op for op in graph.get_operations() if op.name.startswith("gradients/group/block0/")]
    inputs = {tensor.op.name for op in used for tensor in op.inputs if tensor.op.type != "Const"}
    # Of the block's own tensors its gradients use its output alone.
    assert {name for name in inputs if name.startswith("group/block0/") and "ReadVariable" not in name} <= {
        "group/block0/out"
    }


def test_numbers_that_are_drawn_with_a_state_are_kept():
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        w = tf.get_variable("w", initializer=tf.ones([5]), use_resource=True)
        with tf.name_scope("block"):
            mask = tf.random.uniform([5])
            y = tf.exp(w * mask) * w
        cost = tf.reduce_sum(tf.square(y))
        [(gradient, _)] = Recompute(sgd(), "block").compute_gradients(cost)
        assert any(op.name.startswith("recomputed/block/") for op in graph.get_operations())
        session.run(tf.global_variables_initializer())
        found, drawn = session.run([gradient, mask])
    np.testing.assert_allclose(found, 2 * np.exp(2 * drawn) * (1 + drawn), rtol=1e-5)


def test_wrong_blocks_are_errors(graph):
    w = tf.get_variable("w", initializer=tf.ones([5]), use_resource=True)
    with tf.name_scope("part"):
        y = tf.exp(w)
    with pytest.raises(GraphBuildError, match=r"blocks=\['block'\], which match no operation.*such as part"):
        Recompute(sgd(), "block").compute_gradients(tf.reduce_sum(y))
    with pytest.raises(ConfigError, match="expected a regular expression"):
        Recompute(sgd(), "block(")


def test_blocks_that_take_turns_are_refused(graph):
    def through(*scopes):
        x = tf.get_variable("w", initializer=tf.ones([5]), use_resource=True).read_value()
        for scope in scopes:
            with tf.name_scope(scope):
                x = tf.exp(tf.sin(x) * x)
        return tf.reduce_sum(x)

    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        cost = through("a/", "b/") + through("b/", "a/")
    with pytest.raises(GraphBuildError, match="Recompute got blocks that take turns"):
        Recompute(sgd(), ["a", "b"]).compute_gradients(cost)


def loop_cost(w):
    with tf.name_scope("block"):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y * w) * y), [0, w])[1]


@pytest.mark.parametrize("make", [lambda opt: Recompute(opt, "block"), SAM], ids=["recompute", "sam"])
def test_loops_are_refused(graph, make):
    w = tf.get_variable("w", initializer=1.0, use_resource=True)
    tf.disable_control_flow_v2()
    try:
        cost = loop_cost(w.read_value())
    finally:
        tf.enable_control_flow_v2()
    with pytest.raises(GraphBuildError, match="a loop or condition of TensorFlow 1: expected operations outside"):
        make(sgd()).compute_gradients(cost)


@pytest.mark.parametrize(
    "make", [lambda opt: Recompute(opt, "block"), lambda opt: SAM(opt, 1e-6)], ids=["recompute", "sam"]
)
def test_loops_that_are_functions_are_copied_whole(graph, session8, make):
    w = tf.get_variable("w", initializer=0.7, use_resource=True)
    cost = tf.exp(loop_cost(w.read_value()))
    [(found, _)] = make(sgd()).compute_gradients(cost)
    [wanted] = tf.gradients(cost, [w])
    session8.run(tf.global_variables_initializer())
    found, wanted = session8.run([found, wanted])
    assert found == pytest.approx(wanted, rel=1e-4)


def model(w, table, x):
    """Use a variable twice, and rows of a table, of which one comes twice."""
    rows = tf.gather(table, [1, 3, 1])
    return tf.reduce_sum(tf.square(tf.sigmoid(x @ w) + tf.reduce_sum(tf.sin(rows), 0))) + 0.1 * tf.reduce_sum(w**4)


@tf.custom_gradient
def cubed(x):
    """A power whose gradient is not what TensorFlow would take, and has the values of the forward pass."""
    return x**3, lambda d: d * 5 * x**2


def with_own_gradients(w, table, x):
    return tf.reduce_sum(tf.nn.swish(x @ w)) + tf.reduce_sum(cubed(table)) + model(w, table, x)


def linear(w, table, x):
    return tf.reduce_sum(x @ w) + 2 * tf.reduce_sum(tf.gather(table, [1, 3, 1]))


VALUES = np.random.default_rng(0).normal(size=(5, 2)), np.random.default_rng(1).normal(size=(4, 2))
X = np.random.default_rng(2).normal(size=(6, 5))


def variables():
    return [tf.get_variable(name, initializer=value) for name, value in zip(("w", "table"), VALUES, strict=True)]


@pytest.mark.parametrize("model", [model, with_own_gradients, linear])
def test_gradients_are_those_of_the_model_at_moved_weights(model):
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        w, table = variables()
        grads = SAM(sgd(), rho=0.3).compute_gradients(model(w, table, X))
        assert isinstance(grads[1][0], tf.IndexedSlices) == (model is not with_own_gradients)
        session.run(tf.global_variables_initializer())
        found = session.run([tf.convert_to_tensor(gradient) for gradient, _ in grads])
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        plain = [tf.constant(value) for value in VALUES]
        first = [tf.convert_to_tensor(g) for g in tf.gradients(model(*plain, X), plain)]
        norm = tf.sqrt(tf.add_n([tf.reduce_sum(g**2) for g in first]))
        moved = [value + 0.3 * g / norm for value, g in zip(plain, first, strict=True)]
        wanted = session.run([tf.convert_to_tensor(g) for g in tf.gradients(model(*moved, X), moved)])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_towers_move_by_their_own_gradients_and_copied_ones_as_built_ones(log_dir):
    def of(building, wrap):
        return trained(wrap, lambda: BuilderTrainer(SyncMultiGPUReplicatedBuilder(4, tower_building=building)))[0]

    copied, built = (of(building, lambda opt: SAM(opt, rho=0.2)) for building in ("copy", "build"))
    plain = of("auto", lambda opt: opt)
    for name, value in copied.items():
        np.testing.assert_allclose(value, built[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert not np.allclose(copied["fc/W"], plain["fc/W"], rtol=1e-3)


def test_statistics_and_costs_are_those_of_the_weights_themselves(log_dir):
    """Without a learning rate, steps differ in nothing but what normalisation collects, once a step."""

    class Still(Blocks):
        def optimizer(self):
            return self._wrap(tf.train.GradientDescentOptimizer(0.0))

    found = []
    for wrap in (lambda opt: opt, lambda opt: SAM(opt, 0.5)):
        with tf.Graph().as_default():
            recorder = Recorder()
            config = TrainConfig(
                model=Still(wrap), data=data(), callbacks=[recorder], steps_per_epoch=3, max_epoch=1, seed=1
            )
            launch_train_with_config(config, SimpleTrainer())
            found.append((recorder.weights, recorder.trainer.monitors.get_latest("cost")))
    assert found[0][1] == found[1][1]
    for name, value in found[0][0].items():
        np.testing.assert_array_equal(found[1][0][name], value, err_msg=name)


def test_it_goes_inside_of_what_holds_gradients_back(log_dir):
    frozen, _ = trained(lambda opt: Unfreeze(SAM(opt, 0.2), {0: "fc", 1: ".*"}), SimpleTrainer)
    guarded, _ = trained(lambda opt: SpikeGuard(SAM(opt, 0.2)), SimpleTrainer)
    assert np.all(frozen["group/block1/conv1/W/Momentum"] == 0)
    assert np.any(frozen["fc/W/Momentum"] != 0)
    assert np.any(guarded["group/block1/conv1/W/Momentum"] != 0)
    for wrong in (lambda opt: SAM(Unfreeze(opt, {0: "fc", 1: ".*"})), lambda opt: SAM(SpikeGuard(opt))):
        with pytest.raises(GraphBuildError, match="SAM got "):
            trained(wrong, SimpleTrainer)


def test_a_length_that_is_not_positive_is_an_error():
    with pytest.raises(ConfigError, match="SAM got rho=0"):
        SAM(sgd(), 0)
