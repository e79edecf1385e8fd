"""Normalisation of each input alone."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, shapes, values
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers

IMAGE = np.random.RandomState(0).randn(2, 3, 5, 6).astype("f")
FIRST = IMAGE.transpose(0, 3, 1, 2)


def normalized(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def test_layer_norm(graph):
    outputs = [
        layers.layer_norm(tf.placeholder_with_default(IMAGE, [None, 3, 5, 6])),
        layers.layer_norm(IMAGE, begin_norm_axis=-1, scale=False, activation_fn=tf.nn.relu, begin_params_axis=2),
    ]
    assert names() == ["LayerNorm/beta", "LayerNorm/gamma", "LayerNorm_1/beta"]
    assert names(tf.GraphKeys.MODEL_VARIABLES) == names()
    assert shapes()["LayerNorm_1/beta"] == [5, 6]
    given = values()
    expected = normalized(IMAGE, (1, 2, 3), 1e-12) * given["LayerNorm/gamma"] + given["LayerNorm/beta"]
    other = np.maximum(normalized(IMAGE, 3, 1e-12) + given["LayerNorm_1/beta"], 0)
    for result, wanted in zip(run(outputs, given), [expected, other], strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_layer_in_map_fn_is_not_rewritten(graph):
    def apply(image):
        return layers.instance_norm(layers.conv2d(image[None], 3, 1, scope="conv"), scope="norm")[0]

    mapped = tf.map_fn(apply, tf.constant(IMAGE))
    assert names() == ["conv/weights", "conv/biases", "norm/beta", "norm/gamma"]
    with tf.variable_scope("", reuse=True):
        whole = layers.instance_norm(layers.conv2d(IMAGE, 3, 1, scope="conv"), scope="norm")
    result, wanted = run([mapped, whole], values())
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_instance_norm(graph):
    outputs = [layers.instance_norm(IMAGE), layers.instance_norm(FIRST, data_format="NCHW", center=False)]
    assert names() == ["InstanceNorm/beta", "InstanceNorm/gamma", "InstanceNorm_1/gamma"]
    given = values()
    plain = normalized(IMAGE, (1, 2), 1e-6)
    results = run(outputs, given)
    expected = plain * given["InstanceNorm/gamma"] + given["InstanceNorm/beta"]
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-5)
    expected = plain * given["InstanceNorm_1/gamma"]
    np.testing.assert_allclose(results[1].transpose(0, 2, 3, 1), expected, rtol=1e-4, atol=1e-5)


def test_group_norm(graph):
    image = tf.placeholder_with_default(IMAGE, [None, None, 5, 6])
    outputs = [
        layers.group_norm(image, 3, param_initializers={"gamma": tf.zeros_initializer()}),
        layers.group_norm(FIRST, 3, channels_axis=1, reduction_axes=(2, 3), mean_close_to_zero=True, center=False),
    ]
    assert names() == ["GroupNorm/beta", "GroupNorm/gamma", "GroupNorm_1/gamma"]
    assert run(tf.global_variables()[1]).tolist() == [0.0] * 6
    given = values()
    plain = normalized(IMAGE.reshape(2, 3, 5, 3, 2), (1, 2, 4), 1e-6).reshape(IMAGE.shape)
    results = run(outputs, given)
    expected = plain * given["GroupNorm/gamma"] + given["GroupNorm/beta"]
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-5)
    expected = plain * given["GroupNorm_1/gamma"]
    np.testing.assert_allclose(results[1].transpose(0, 2, 3, 1), expected, rtol=1e-3, atol=1e-4)


def test_what_cannot_be_is_refused(graph):
    unknown = tf.placeholder(tf.float32)
    for function, arguments, options, message in (
        (layers.layer_norm, (unknown,), {}, "known number of dimensions"),
        (layers.layer_norm, (IMAGE,), {"begin_norm_axis": 4}, "expected dimensions of the shape"),
        (layers.layer_norm, (tf.placeholder(tf.float32, [2, None]),), {}, "to be known"),
        (layers.instance_norm, (IMAGE,), {"data_format": "A"}, "data_format"),
        (layers.group_norm, (IMAGE, 4), {}, "groups=4: expected a divisor"),
        (layers.group_norm, (IMAGE, 3), {"channels_axis": 1}, "expected others"),
    ):
        with pytest.raises(ConfigError, match=message):
            function(*arguments, **options)
