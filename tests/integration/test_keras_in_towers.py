"""Keras models in a tower function: every builder and predictor against one tower that has the whole batch."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from tests.helpers.sessions import cpu_session
from tpack.errors import GraphBuildError
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.graph_builder.predict import build_predict_tower
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.models.regularize import add_keras_losses
from tpack.reduction.cross_replica import mean_over_towers
from tpack.step.step_seeds import differ_by_worker
from tpack.tower.context import TrainTowerContext, current_tower_context
from tpack.tower.tower_func import TowerFunc

STEPS, ROWS = 3, 8
KERAS = {"keras": keras, "tf_keras": tf_keras}
BUILDERS = {
    "replicated": SyncMultiGPUReplicatedBuilder,
    "parameter server": SyncMultiGPUParameterServerBuilder,
    "async": AsyncMultiGPUBuilder,
}


@lru_cache
def data():
    """The same rows for each tower, so that statistics of a tower's batch are those of the whole batch."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(STEPS, 4, 6, 6, 2)), rng.normal(size=(STEPS, 4, 3))
    return np.tile(x, (1, 2, 1, 1, 1)).astype("float32"), np.tile(y, (1, 2, 1)).astype("float32")


def values(module, seed, scale=0.3):
    """Return an initializer that gives the same numbers in every graph."""

    class Values(module.initializers.Initializer):
        def __call__(self, shape, dtype=None, **kwargs):
            return tf.constant(np.random.default_rng(seed).normal(size=shape, scale=scale), dtype or tf.float32)

    return Values()


def network(module, x, *, meet):
    """Return the output of layers by themselves and in a model, of which some have no name of their own."""
    layers, training = module.layers, current_tower_context().is_training
    conv = layers.Conv2D(3, 3, kernel_initializer=values(module, 1), kernel_regularizer=module.regularizers.L2(0.05))
    x = conv(x)
    x = layers.BatchNormalization(momentum=0.5)(x, training=training)
    if meet:
        x = x + 0.0 * mean_over_towers(x)
    net = module.Sequential(
        [
            layers.Flatten(),
            layers.Dense(5, activation="tanh", kernel_initializer=values(module, 2)),
            layers.BatchNormalization(name="named"),
            layers.Dense(3, kernel_initializer=values(module, 3)),
        ]
    )
    x = net(x, training=training)
    add_keras_losses(conv, net)
    return x


def make_tower_func(module, *, meet=False):
    def build(x, y):
        output = tf.identity(network(module, x, meet=meet), name="prediction")
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        return tf.add_n([tf.reduce_mean(tf.square(output - y)), *losses], name="cost")

    signature = [tf.TensorSpec([None, 6, 6, 2], tf.float32, "x"), tf.TensorSpec([None, 3], tf.float32, "y")]
    return TowerFunc(build, signature)


def train(builder, num_towers, module, *, meet=False, rate=0.1):
    """Return {name: value} of the variables after some steps, and a prediction by them."""
    xs, ys = data()
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.int32, [])
        func = make_tower_func(module, meet=meet)

        def grad_fn():
            tower = current_tower_context()
            part = slice(tower.index * ROWS // tower.total, (tower.index + 1) * ROWS // tower.total)
            cost = func(tf.constant(xs[:, part])[step], tf.constant(ys[:, part])[step])
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        optimizer = tf.train.GradientDescentOptimizer(rate)
        result = builder.build(grad_fn, lambda: optimizer)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        predictor = build_predict_tower(func, [tf.constant(xs[0]), tf.constant(ys[0])], name="predict", device="/cpu:0")
        assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == updates
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for number in range(STEPS):
                session.run([result.train_op, updates], {step: number})
            weights = session.run({v.op.name: v for v in tf.global_variables()})
            return weights, session.run(predictor["prediction"])


@lru_cache
def oracle(kind, rate=0.1):
    return train(SimpleBuilder(), 1, KERAS[kind], rate=rate)


def assert_same(kind, got, expected):
    weights, prediction = got
    assert set(weights) == set(expected[0])
    # tf_keras takes the moving variance to be that of n / (n - 1) times the variance, and a tower's n is smaller.
    rtol = 1e-4 if kind == "keras" else 0.02
    for name, value in expected[0].items():
        tolerance = rtol if name.endswith("moving_variance") else 1e-4
        np.testing.assert_allclose(weights[name], value, rtol=tolerance, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(prediction, expected[1], rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("kind", KERAS)
@pytest.mark.parametrize("builder", ["replicated", "parameter server"])
def test_towers_train_and_predict_like_one(kind, builder):
    assert_same(kind, train(BUILDERS[builder](2), 2, KERAS[kind]), oracle(kind))


@pytest.mark.parametrize("kind", KERAS)
@pytest.mark.parametrize("builder", ["replicated", "parameter server"])
def test_towers_that_meet_have_the_same_names(kind, builder):
    assert_same(kind, train(BUILDERS[builder](2), 2, KERAS[kind], meet=True), oracle(kind))


@pytest.mark.parametrize("kind", KERAS)
def test_async_towers_share_variables_too(kind):
    assert_same(kind, train(AsyncMultiGPUBuilder(2), 2, KERAS[kind], rate=0.0), oracle(kind, rate=0.0))


@pytest.mark.parametrize("kind", KERAS)
def test_names_begin_anew_in_each_graph_and_averages_move(kind):
    weights, _ = oracle(kind)
    averages = {f"{layer}/moving_mean" for layer in ("batch_normalization", "sequential/named")}
    assert {"conv2d/kernel", "conv2d/bias", "batch_normalization/gamma", "sequential/dense/kernel", *averages} <= set(
        weights
    )
    for name in averages:
        assert np.abs(weights[name]).min() > 1e-4


def test_a_layer_that_is_kept_works_where_variables_are_shared_and_is_refused_where_not():
    def build(builder):
        layer = keras.layers.Dense(2, name="kept")
        func = TowerFunc(lambda x: tf.reduce_sum(layer(x)), [tf.TensorSpec([None, 3], tf.float32, "x")])
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        grad_fn = make_grad_fn(lambda: [tf.ones([4, 3])], func, lambda: optimizer, GradientOptions())
        builder.build(grad_fn, lambda: optimizer)
        build_predict_tower(func, [tf.ones([1, 3])], name="predict")

    with tf.Graph().as_default():
        build(SyncMultiGPUParameterServerBuilder(2))
        assert [v.op.name for v in tf.global_variables()] == ["kept/kernel", "kept/bias"]
    with tf.Graph().as_default(), pytest.raises(GraphBuildError, match="must create its variables anew in each tower"):
        build(SyncMultiGPUReplicatedBuilder(2))


@pytest.mark.parametrize("seed", [None, 3])
def test_towers_drop_other_values(session8, seed):
    masks = {}

    def tower(x):
        dropped = keras.layers.Dropout(0.5, seed=seed)(tf.ones_like(x), training=True)
        masks[current_tower_context().index] = dropped
        return tf.reduce_mean(x * dropped)

    tower = TowerFunc(tower, [tf.TensorSpec([None], tf.float32, "x")])
    for index in range(3):
        name = f"tower{index}" if index else ""
        with TrainTowerContext(name, name, index=index, total=3, device=f"/device:CPU:{index}"):
            tower(tf.ones([64]))
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    first, second, third = session8.run([masks[index] for index in range(3)])
    assert (first != second).any()
    assert (second != third).any()
    assert (first != third).any()


def test_workers_drop_other_values():
    masks = []
    for rank in range(3):
        with tf.Graph().as_default(), tf.Session() as sess:
            differ_by_worker(rank)
            tower = TowerFunc(
                lambda x: keras.layers.Dropout(0.5, seed=3)(tf.ones_like(x), training=True),
                [tf.TensorSpec([None], tf.float32, "x")],
            )
            with TrainTowerContext("", "", index=0, total=1, device="/device:CPU:0"):
                dropped = tower(tf.ones([64]))
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            masks.append(sess.run(dropped).tobytes())
    assert len(set(masks)) == 3


def test_the_method_that_draws_is_restored_when_towers_of_threads_overlap():
    original, second_is_open, first_has_ended = keras.random.SeedGenerator.next, threading.Event(), threading.Event()

    def tower(wait, done):
        def function():
            done.set()
            assert wait.wait(60)
            return keras.layers.Dropout(0.5)(tf.ones([4]), training=True)

        with tf.Graph().as_default(), TrainTowerContext("", "", index=0, total=1, device="/device:CPU:0"):
            TowerFunc(function, [])()

    is_open = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(tower, second_is_open, is_open)
        assert is_open.wait(60)
        second = pool.submit(tower, first_has_ended, second_is_open)
        first.result()
        assert keras.random.SeedGenerator.next is not original
        first_has_ended.set()
        second.result()
    assert keras.random.SeedGenerator.next is original
