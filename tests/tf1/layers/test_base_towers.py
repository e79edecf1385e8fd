"""Layers in towers: K of them equal one, whoever holds the variables, with losses and moving averages."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.layer_checks import randomize_variables
from tests.helpers.sessions import cpu_session
from tpack.distribute.strategies import MirroredStrategy
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.models.regularize import regularize_cost_from_collection
from tpack.reduction.algorithms.one_device import OneDeviceReducer
from tpack.tower.context import current_tower_context

STEPS, TOWERS, BATCH = 3, 2, 4

BUILDERS: dict[str, Callable[[], Any]] = {
    "parameter server": lambda: SyncMultiGPUParameterServerBuilder(TOWERS, "cpu"),
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(TOWERS, reducer=OneDeviceReducer()),
}


def model(x: Any, same: Any, shared: Any) -> Any:
    """Return a cost with losses.

    Args:
        x: the tower's part of the batch.
        same: what is normalised, the same rows in all towers, so that the statistics are those of one tower.
        shared: a layer that was made outside of the towers, or None.
    """
    layers = tf.layers
    x = layers.conv2d(x, 3, 3, activation=tf.nn.softplus, kernel_regularizer=tf.nn.l2_loss, name="conv")
    x = layers.separable_conv2d(x, 3, 2, name="separable", pointwise_regularizer=tf.nn.l2_loss)
    x = layers.conv2d_transpose(layers.max_pooling2d(x, 2, 1), 2, 2, bias_regularizer=tf.nn.l2_loss)
    x = layers.dense(layers.flatten(x), 2, kernel_regularizer=tf.nn.l2_loss)
    if shared is not None:
        x = shared(x)
    same = layers.dense(same, 2, name="same")
    same = layers.batch_normalization(same, training=True, gamma_regularizer=tf.nn.l2_loss)
    same = layers.batch_normalization(same, training=True, renorm=True, name="corrected")
    return tf.reduce_mean(tf.tanh(x)) + tf.reduce_mean(tf.sin(same)) + regularize_cost_from_collection()


def train(builder: Any, num_towers: int, *, is_shared: bool = False) -> dict[str, np.ndarray]:
    """Train the model and return its variables by name, those of the main tower."""
    rng = np.random.default_rng(5)
    x, rows = rng.normal(size=(TOWERS * BATCH, 5, 5, 2)), rng.normal(size=(BATCH, 3))

    def grad_fn() -> Any:
        tower = current_tower_context()
        size = len(x) // tower.total
        part = slice(tower.index * size, (tower.index + 1) * size)
        normalised = np.concatenate([rows[::-1] if tower.index else rows] * (TOWERS // tower.total))
        cost = model(tf.constant(x[part]), tf.constant(normalised), layer if is_shared else None)
        variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
        return list(zip(tf.gradients(cost, variables), variables, strict=True))

    with tf.Graph().as_default() as graph:
        layer = tf.layers.Dense(2, kernel_regularizer=tf.nn.l2_loss)
        result = builder.build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.01))
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            randomize_variables(session)
            for variable in (v for v in tf.global_variables() if v.op.name.endswith(("variance", "stddev"))):
                variable.load(np.full(variable.shape.as_list(), 1.5), session)
            if result.init_op is not None:
                session.run(result.init_op)
            for _ in range(STEPS):
                session.run(updates)
                session.run(result.train_op)
            main = [v for v in tf.global_variables() if not v.op.name.startswith("tower")]
            return {v.op.name: value for v, value in zip(main, session.run(main), strict=True)}


@pytest.mark.parametrize("builder", BUILDERS)
def test_towers_end_with_the_variables_of_one_tower(builder: str) -> None:
    wanted = train(SimpleBuilder(), 1)
    got = train(BUILDERS[builder](), TOWERS)
    assert len(wanted) == 22
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_layer_that_is_called_in_each_tower_is_one_layer() -> None:
    wanted = train(SimpleBuilder(), 1, is_shared=True)
    got = train(BUILDERS["parameter server"](), TOWERS, is_shared=True)
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_mirrored_strategy_has_the_variables_on_each_device(graph: Any) -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])

    def model_fn() -> Any:
        x = tf.layers.dense(tf.ones([2, 3]), 2, kernel_regularizer=tf.nn.l2_loss)
        return tf.reduce_sum(tf.layers.batch_normalization(x, training=True))

    with strategy.scope():
        strategy.call_for_each_tower(model_fn)
        kernel = next(v for v in tf.trainable_variables() if v.op.name == "dense/kernel")
        assert [v.device[-5:] for v in strategy.unwrap(kernel)] == ["CPU:0", "CPU:1"]
