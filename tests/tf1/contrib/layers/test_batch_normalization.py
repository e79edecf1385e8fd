"""Batch normalisation: names and orders as TensorFlow 1.15 made them, values by numpy, and towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, values
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.models.regularize import regularize_cost_from_collection
from tpack.tf1.contrib import layers
from tpack.tower.context import PredictTowerContext, current_tower_context

KEYS = tf.GraphKeys
IMAGE = np.random.RandomState(0).randn(4, 3, 2, 5).astype("f")
FEATURES = np.random.RandomState(1).randn(6, 5).astype("f")
PREFIX = "BatchNorm/"


def normalized(x, mean, variance, given, epsilon=0.001):
    outputs = (x - mean) / np.sqrt(variance + epsilon)
    return outputs * given.get(PREFIX + "gamma", 1.0) + given.get(PREFIX + "beta", 0.0)


def moved(given, mean, variance, decay):
    """Return the averages after a step, in the order of their names."""
    old = given[PREFIX + "moving_mean"], given[PREFIX + "moving_variance"]
    return [decay * average + (1 - decay) * value for average, value in zip(old, (mean, variance), strict=True)]


def averages():
    return [tf.identity(var.read_value()) for var in tf.global_variables() if "moving" in var.op.name]


@pytest.mark.parametrize("fused", [None, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("x", [IMAGE, FEATURES], ids=["image", "features"])
def test_training(graph, x, fused):
    outputs = layers.batch_norm(x, decay=0.9, scale=True, fused=fused, outputs_collections="outs")
    beta_first = x.ndim == 2 and fused is None
    affine = ["BatchNorm/beta", "BatchNorm/gamma"] if beta_first else ["BatchNorm/gamma", "BatchNorm/beta"]
    assert names() == [*affine, "BatchNorm/moving_mean", "BatchNorm/moving_variance"]
    assert names(KEYS.MODEL_VARIABLES) == names()
    assert names(KEYS.TRAINABLE_VARIABLES) == affine
    assert [output.aliases for output in tf.get_collection("outs")] == [["BatchNorm"]]
    updates = tf.get_collection(KEYS.UPDATE_OPS)
    assert len(updates) == 2
    given = values()
    rows = x.reshape(-1, 5)
    mean, variance = rows.mean(0), rows.var(0)
    (result, _), after = run([outputs, updates], given, then=averages())
    np.testing.assert_allclose(result, normalized(x, mean, variance, given), rtol=1e-4, atol=1e-5)
    counted = variance * len(rows) / (len(rows) - 1) if fused is None else variance
    np.testing.assert_allclose(after, moved(given, mean, counted, 0.9), rtol=1e-4)


@pytest.mark.parametrize("x", [IMAGE, FEATURES, IMAGE[0]], ids=["image", "features", "sequence"])
def test_inference_uses_the_averages_and_updates_nothing(graph, x):
    outputs = layers.batch_norm(x, is_training=False)
    given = values()
    expected = normalized(x, given[PREFIX + "moving_mean"], given[PREFIX + "moving_variance"], given)
    np.testing.assert_allclose(run(outputs, given), expected, rtol=1e-4, atol=1e-5)
    assert names() == ["BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance"]
    assert names(KEYS.UPDATE_OPS) == []


@pytest.mark.parametrize("collections", [None, "mine"], ids=["at once", "collected"])
def test_training_may_be_a_tensor(graph, collections):
    flag = tf.placeholder(tf.bool, [])
    outputs = layers.batch_norm(IMAGE, is_training=flag, decay=0.5, updates_collections=collections)
    given = values()
    old = given[PREFIX + "moving_mean"], given[PREFIX + "moving_variance"]
    rows = IMAGE.reshape(-1, 5)
    for value, statistics in ((False, old), (True, (rows.mean(0), rows.var(0)))):
        (result, _), after = run([outputs, tf.get_collection("mine")], given, {flag: value}, then=averages())
        np.testing.assert_allclose(result, normalized(IMAGE, *statistics, given), rtol=1e-4, atol=1e-5)
        counted = statistics[1] * 24 / 23 if value else statistics[1]
        np.testing.assert_allclose(after, moved(given, statistics[0], counted, 0.5), rtol=1e-4)
    assert names(KEYS.UPDATE_OPS) == []


def test_channels_may_come_first_and_inputs_have_weights(graph):
    first = IMAGE.transpose(0, 3, 1, 2)
    weights = np.array([1.0, 0.0, 2.0, 1.0], "f")
    outputs = [
        layers.batch_norm(first, data_format="NCHW"),
        layers.batch_norm(first, data_format="NCHW", fused=False, scope="other"),
        layers.batch_norm(IMAGE, batch_weights=weights, scope="weighted"),
    ]
    results = run(outputs)
    rows = IMAGE.reshape(-1, 5)
    expected = (IMAGE - rows.mean(0)) / np.sqrt(rows.var(0) + 0.001)
    for result in results[:2]:
        np.testing.assert_allclose(result.transpose(0, 2, 3, 1), expected, rtol=1e-4, atol=1e-5)
    kept = IMAGE[[0, 2, 2, 3]].reshape(-1, 5)
    expected = (IMAGE - kept.mean(0)) / np.sqrt(kept.var(0) + 0.001)
    np.testing.assert_allclose(results[2], expected, rtol=1e-4, atol=1e-5)


def test_an_average_that_is_not_biased_by_its_beginning(graph):
    layers.batch_norm(FEATURES, zero_debias_moving_mean=True, decay=0.9)
    inner = ["BatchNorm/BatchNorm/moving_mean/biased", "BatchNorm/BatchNorm/moving_mean/local_step"]
    assert names()[-2:] == inner
    _, after = run(tf.get_collection(KEYS.UPDATE_OPS), then=averages())
    np.testing.assert_allclose(after[0], FEATURES.mean(0), rtol=1e-4, atol=1e-6)


def test_variables_have_their_options(graph):
    layers.batch_norm(
        IMAGE,
        center=False,
        scale=True,
        trainable=False,
        param_initializers={"gamma": tf.constant_initializer(3.0), "moving_mean": tf.ones_initializer()},
        param_regularizers={"gamma": layers.l2_regularizer(0.1)},
        variables_collections={"gamma": ["mine"]},
    )
    assert (names("mine"), names(KEYS.TRAINABLE_VARIABLES), names(KEYS.UPDATE_OPS)) == (["BatchNorm/gamma"], [], [])
    assert [value[0] for value in run(tf.global_variables())] == [3.0, 1.0, 1.0]
    assert run(tf.losses.get_regularization_loss()) == pytest.approx(0.1 * 5 * 9 / 2)


def test_renormalisation_has_its_variables(graph):
    clipping = {"rmax": 1.0, "rmin": 1.0, "dmax": 0.0}
    outputs = layers.batch_norm(IMAGE, renorm=True, renorm_clipping=clipping, variables_collections=["mine"])
    kinds = ["beta", "moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev"]
    assert names() == names(KEYS.MODEL_VARIABLES) == names("mine") == [PREFIX + kind for kind in kinds]
    rows = IMAGE.reshape(-1, 5)
    expected = (IMAGE - rows.mean(0)) / np.sqrt(rows.var(0) + 0.001)
    np.testing.assert_allclose(run(outputs), expected, rtol=1e-3, atol=1e-4)


def test_what_cannot_be_is_refused(graph):
    for options, message in (
        ({"data_format": "CHW"}, "data_format=.*expected one of"),
        ({"renorm": True, "updates_collections": None}, "renorm=True with"),
        ({"adjustment": len, "batch_weights": [1.0]}, "adjustment with"),
        ({"inputs": tf.placeholder(tf.float32, [3, None])}, "to be known"),
    ):
        with pytest.raises(ConfigError, match=message):
            layers.batch_norm(**{"inputs": IMAGE, **options})
    with pytest.raises(ConfigError, match="is in a loop or condition"):
        tf.while_loop(lambda x: True, lambda x: layers.batch_norm(x), [tf.constant(IMAGE)])


def trained(builder, num_towers):
    """Return the variables after steps in which each tower has the same batch in another order."""
    with tf.Graph().as_default() as graph:

        def grad_fn():
            tower = current_tower_context()
            x = tf.constant(np.roll(IMAGE, tower.index, 0))
            x = layers.conv2d(x, 3, 2, weights_regularizer=layers.l2_regularizer(0.1), normalizer_fn=layers.batch_norm)
            x = layers.batch_norm(x, decay=0.5, zero_debias_moving_mean=True, scale=True)
            cost = tf.reduce_mean(tf.square(x - 1.0)) + regularize_cost_from_collection()
            variables = tower.get_collection_in_tower(KEYS.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        result = builder.build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.1))
        updates = tf.get_collection(KEYS.UPDATE_OPS)
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for variable in tf.global_variables():
                start = np.linspace(0.5, 1.5, variable.shape.num_elements()).reshape(variable.shape.as_list())
                if "local_step" not in variable.op.name:
                    variable.load(start.astype("f"), session)
            if result.init_op is not None:
                session.run(result.init_op)
            for _ in range(3):
                session.run([result.train_op, updates])
            return {var.op.name: session.run(var) for var in tf.global_variables()}, names(KEYS.MODEL_VARIABLES)


@pytest.mark.parametrize("builder", [SyncMultiGPUReplicatedBuilder, SyncMultiGPUParameterServerBuilder])
def test_towers_train_as_one(builder):
    one, model = trained(SimpleBuilder(), 1)
    two, model_of_two = trained(builder(2), 2)
    assert model == model_of_two
    assert set(one) == set(two)
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_tower_for_prediction_updates_nothing(graph):
    with PredictTowerContext("predict"):
        layers.batch_norm(IMAGE)
    assert names(KEYS.UPDATE_OPS) == []
