"""Fully connected layers: names as TensorFlow 1.15 made them, values by numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, shapes, values
from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import layers

X = np.random.RandomState(0).randn(4, 3, 6).astype("f")


@pytest.fixture
def x(graph):
    return tf.placeholder(tf.float32, [None, 3, 6], name="x")


def test_layers_have_their_variables_and_names(x):
    outputs = [layers.fully_connected(x[:, 0], 4), layers.linear(x, 3), layers.relu6(x[:, 0], 2), layers.elu(x, 1)]
    scopes = ["fully_connected", "fully_connected_1", "fully_connected_2", "fully_connected_3"]
    assert names() == [f"{scope}/{kind}" for scope in scopes for kind in ("weights", "biases")]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == names(tf.GraphKeys.TRAINABLE_VARIABLES) == names()
    assert shapes()["fully_connected/weights"] == [6, 4]
    assert [output.op.name for output in outputs[:2]] == ["fully_connected/Relu", "fully_connected_1/BiasAdd"]
    assert [output.shape.as_list() for output in outputs] == [[None, 4], [None, 3, 3], [None, 2], [None, 3, 1]]
    given = values()
    linear = X @ given["fully_connected_1/weights"] + given["fully_connected_1/biases"]
    first = X[:, 0] @ given["fully_connected/weights"] + given["fully_connected/biases"]
    results = run(outputs, given, {x: X})
    np.testing.assert_allclose(results[0], np.maximum(first, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[1], linear, rtol=1e-5, atol=1e-6)


def test_options(x):
    options = {"weights_regularizer": layers.l2_regularizer(0.1), "biases_regularizer": layers.l1_regularizer(0.1)}
    collections = {"weights": ["mine"]}
    for reuse in (None, True):
        layers.fully_connected(
            x,
            4,
            scope="a",
            reuse=reuse,
            trainable=False,
            variables_collections=collections,
            outputs_collections="outs",
            **options,
        )
    assert names() == ["a/weights", "a/biases"]
    assert (names("mine"), names(tf.GraphKeys.TRAINABLE_VARIABLES)) == (["a/weights"], [])
    losses = [tf.convert_to_tensor(loss).op.name for loss in tf.losses.get_regularization_losses()]
    assert losses == ["a/kernel/Regularizer/l2_regularizer", "a/bias/Regularizer/l1_regularizer"]
    assert [output.aliases for output in tf.get_collection("outs")] == [["a"], ["a"]]
    layers.fully_connected(x, 4, biases_initializer=None, scope="b")
    layers.fully_connected(
        x, 4, normalizer_fn=lambda x, factor: x * factor, normalizer_params={"factor": 2.0}, scope="c"
    )
    assert names()[2:] == ["b/weights", "c/weights"]


def test_the_first_layers_of_contrib(x):
    outputs = [
        layers.legacy_fully_connected(x, 4),
        layers.legacy_relu(x[:, 0], 2),
        layers.legacy_linear(x, 1, name="n"),
    ]
    assert names()[:2] == ["fully_connected/weights", "fully_connected/bias"]
    assert names(tf.GraphKeys.WEIGHTS) == ["fully_connected/weights", "fully_connected_1/weights", "n/weights"]
    assert names(tf.GraphKeys.ACTIVATIONS) == [output.op.name for output in outputs]
    assert outputs[0].shape.as_list() == [None, 3, 4]
    given = values()
    expected = X @ given["fully_connected/weights"] + given["fully_connected/bias"]
    np.testing.assert_allclose(run(outputs[0], given, {x: X}), expected, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ConfigError, match="at least 2 dimensions"):
        layers.fully_connected(tf.zeros([4]), 3)
    with pytest.raises(ConfigError, match="to be known"):
        layers.fully_connected(tf.placeholder(tf.float32, [4, None]), 3)
    with pytest.raises(WrongTypeError, match="num_outputs=.*: expected an integer"):
        layers.fully_connected(tf.zeros([4, 3]), "a")
    with pytest.raises(ConfigError, match="at least 1"):
        layers.fully_connected(tf.zeros([4, 3]), 0)
