"""Networks of several layers: defaults by argscope, shared weights, published weights, 16 bits, and K towers as one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.feature_maps import conv2d, pool2d
from tests.helpers.layer_checks import FORMATS, randomize_variables, to_format
from tests.helpers.sessions import cpu_session
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.models.conv2d import Conv2D, Conv2DTranspose
from tpack.models.dropout import Dropout
from tpack.models.fc import FullyConnected
from tpack.models.linearwrap import LinearWrap
from tpack.models.nonlin import PReLU
from tpack.models.pool import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from tpack.models.regularize import l2_regularizer, regularize_cost, regularize_cost_from_collection
from tpack.reduction.algorithms.one_device import OneDeviceReducer
from tpack.tfutils.argscope import argscope
from tpack.tfutils.scope_utils import auto_reuse_variable_scope
from tpack.tfutils.sessinit import SmartInit
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.getters import custom_getter_scope

SHAPES = {
    "conv0/W": (3, 3, 2, 4),
    "conv0/b": (4,),
    "conv1/W": (3, 3, 4, 4),
    "prelu/alpha": (),
    "fc/W": (36, 5),
    "fc/b": (5,),
}


def network(x: Any) -> Any:
    """A network whose variables are those of `SHAPES`."""
    with argscope([Conv2D, FullyConnected], activation=tf.nn.relu), argscope(Conv2D, kernel_size=3):
        return (
            LinearWrap(x)
            .Conv2D("conv0", 4)
            .MaxPooling("pool0", 2)
            .Conv2D("conv1", 4, use_bias=False, activation=tf.identity)
            .PReLU("prelu")
            .Dropout("dropout", 0.5)
            .FullyConnected("fc", 5, activation=None)()
        )


def network_in_numpy(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    x = np.maximum(conv2d(x, weights["conv0/W"]) + weights["conv0/b"], 0)
    x = conv2d(pool2d(np.nanmax, x, (2, 2), (2, 2), "valid"), weights["conv1/W"])
    x = np.where(x > 0, x, weights["prelu/alpha"] * x)
    return x.reshape(len(x), -1) @ weights["fc/W"] + weights["fc/b"]


def test_published_weights_load_by_their_names(graph: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    weights = {name: rng.normal(size=shape).astype("float32") for name, shape in SHAPES.items()}
    np.savez(tmp_path / "model.npz", **{f"{name}:0": value for name, value in weights.items()})
    x = rng.normal(size=(2, 6, 6, 2)).astype("float32")
    with TowerContext("", is_training=False):
        y = network(tf.constant(x))
    assert {v.op.name: tuple(v.shape.as_list()) for v in tf.global_variables()} == SHAPES
    with tf.Session() as session:
        for init in (SmartInit(str(tmp_path / "model.npz")), SmartInit(weights)):
            session.run(tf.global_variables_initializer())
            init.init(session)
            np.testing.assert_allclose(session.run(y), network_in_numpy(x, weights), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_a_network_is_the_same_in_both_formats(dtype: Any, rng: np.random.Generator) -> None:
    x, results = rng.normal(size=(2, 6, 6, 2)), []
    layers = [Conv2D, Conv2DTranspose, MaxPooling, AvgPooling, GlobalAvgPooling, FixedUnPooling]
    for data_format in FORMATS:
        with tf.Graph().as_default(), tf.Session() as session, argscope(layers, data_format=data_format):
            inputs = tf.constant(to_format(x, data_format), dtype)
            y = Conv2D("conv", inputs, 4, 3, strides=2, padding=[[0, 1], [0, 1]], split=2, activation=tf.nn.relu)
            y = Conv2DTranspose("up", y, 4, 3, 2, activation=PReLU)
            y = Conv2D("dilated", y, 4, 3, dilation_rate=2)
            y = AvgPooling("avg", FixedUnPooling("un", MaxPooling("max", y, 2), 3), 3, 2, "same")
            y = FullyConnected("fc", GlobalAvgPooling("gap", y), 3)
            randomize_variables(session)
            results.append(session.run([y, *tf.gradients(y**2, [inputs, *tf.trainable_variables()])]))
    (outputs, grad, *weight_grads), (outputs_first, grad_first, *weight_grads_first) = results
    np.testing.assert_allclose(outputs_first, outputs, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grad_first, to_format(grad, "channels_first"), rtol=1e-3, atol=1e-3)
    for first, last in zip(weight_grads_first, weight_grads, strict=True):
        np.testing.assert_allclose(first, last, rtol=1e-3, atol=1e-3)


def test_two_calls_share_their_weights(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 6, 6, 2)).astype("float32")
    embed = auto_reuse_variable_scope(network)
    with TowerContext("", is_training=False), tf.variable_scope("siamese"):
        one, other = embed(tf.constant(x)), embed(tf.constant(x[::-1]))
    assert {v.op.name for v in tf.global_variables()} == {f"siamese/{name}" for name in SHAPES}
    with tf.Session() as session:
        randomize_variables(session)
        first, second = session.run([one, other])
    np.testing.assert_allclose(first, second[::-1], rtol=1e-5, atol=1e-5)


def test_sixteen_bits_compute_with_variables_of_thirty_two(graph: Any, rng: np.random.Generator) -> None:
    def cast(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return tf.cast(getter(name, *args, **{**kwargs, "dtype": tf.float32}), kwargs["dtype"])

    x = rng.normal(size=(2, 6, 6, 2))
    with TowerContext("", is_training=False), custom_getter_scope(cast):
        y = network(tf.constant(x, tf.bfloat16))
    products = [op for op in graph.get_operations() if op.type in ("Conv2D", "MatMul")]
    assert [op.outputs[0].dtype for op in products] == [tf.bfloat16] * 3
    assert {v.dtype.base_dtype for v in tf.global_variables()} == {tf.float32}
    with tf.Session() as session:
        weights = randomize_variables(session)
        got = session.run(tf.cast(y, tf.float32))
    wanted = network_in_numpy(x, weights)
    assert np.abs(got - wanted).max() < 0.05 * np.abs(wanted).max()


STEPS, TOWERS, BATCH = 3, 2, 4

BUILDERS: dict[str, Callable[[], Any]] = {
    "parameter server": lambda: SyncMultiGPUParameterServerBuilder(TOWERS, "cpu"),
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(TOWERS, reducer=OneDeviceReducer()),
}


def train(builder: Any, num_towers: int) -> dict[str, np.ndarray]:
    """Train a regularised network and return its weights."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(TOWERS * BATCH, 4, 4, 2)), rng.normal(size=(TOWERS * BATCH, 3))

    def grad_fn() -> Any:
        tower = current_tower_context()
        rows = len(x) // tower.total
        part = slice(tower.index * rows, (tower.index + 1) * rows)
        with argscope([Conv2D, FullyConnected], kernel_regularizer=l2_regularizer(0.3)):
            hidden = Conv2D(
                "conv", tf.constant(x[part]), 4, 3, activation=tf.nn.softplus, bias_regularizer=tf.nn.l2_loss
            )
            error = FullyConnected("fc", hidden, 3) - tf.constant(y[part])
        cost = tf.reduce_mean(error**2) + regularize_cost_from_collection() + regularize_cost("^fc/b", tf.nn.l2_loss)
        variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        return list(zip(tf.gradients(cost, variables), variables, strict=True))

    with tf.Graph().as_default() as graph:
        result = builder.build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.003))
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run(tf.local_variables_initializer())
            randomize_variables(session)
            if result.init_op is not None:
                session.run(result.init_op)
            for _ in range(STEPS):
                session.run(result.train_op)
            names = ("conv/W", "conv/b", "fc/W", "fc/b")
            return {name: session.run(graph.get_tensor_by_name(f"{name}/Read/ReadVariableOp:0")) for name in names}


@pytest.mark.parametrize("builder", BUILDERS)
def test_towers_pay_for_their_weights_as_one_tower_does(builder: str) -> None:
    wanted = train(SimpleBuilder(), 1)
    got = train(BUILDERS[builder](), TOWERS)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-11, err_msg=name)


def test_dropout_layer_is_the_only_difference_between_training_and_prediction(
    graph: Any, rng: np.random.Generator
) -> None:
    x = tf.constant(rng.normal(size=(2, 4, 4, 2)))
    with TowerContext("train", is_training=True):
        trained = Dropout(Conv2D("conv", x, 4, 3), keep_prob=0.5)
    with TowerContext("predict", is_training=False, reuse=True):
        predicted = Dropout(Conv2D("conv", x, 4, 3), keep_prob=0.5)
    with tf.Session() as session:
        randomize_variables(session)
        train_values, predict_values = session.run([trained, predicted])
    kept = train_values != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(train_values[kept], 2 * predict_values[kept])
