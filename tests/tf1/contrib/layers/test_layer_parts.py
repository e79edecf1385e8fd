"""Layers without weights of their own, and those that call others."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, values
from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib import layers

IMAGE = np.random.RandomState(0).randn(2, 3, 4, 6).astype("f")


def test_shapes_that_are_partly_known(graph):
    known = tf.placeholder_with_default(IMAGE, [None, 3, 4, 6])
    width = tf.placeholder_with_default(IMAGE, [2, 3, None, 6])
    outputs = [
        layers.flatten(known),
        layers.flatten(width),
        layers.flatten(tf.placeholder_with_default(IMAGE, [None] * 4)),
    ]
    assert [output.shape.as_list() for output in outputs] == [[None, 72], [2, None], [None, None]]
    assert outputs[0].op.name == "Flatten/flatten/Reshape"
    for result in run(outputs):
        np.testing.assert_array_equal(result, IMAGE.reshape(2, -1))
    sequences = [layers.images_to_sequence(known), layers.images_to_sequence(width)]
    assert [output.shape.as_list() for output in sequences] == [[4, None, 6], [None, 6, 6]]
    back = layers.sequence_to_images(sequences[1], 3)
    first = layers.sequence_to_images(
        layers.images_to_sequence(IMAGE.transpose(0, 3, 1, 2), "NCHW"), 3, "channels_first"
    )
    one, other = run([back, first])
    np.testing.assert_array_equal(one, IMAGE)
    np.testing.assert_array_equal(other, IMAGE.transpose(0, 3, 1, 2))


def test_dropout(graph):
    flag = tf.placeholder(tf.bool, [])
    ones = tf.ones([100, 10])
    outputs = [layers.dropout(ones, 0.8, is_training=flag, seed=1), layers.dropout(ones, is_training=False)]
    for value in (True, False):
        dropped, kept = run(outputs, feeds={flag: value})
        assert set(np.unique(dropped)) == ({0.0, np.float32(1.25)} if value else {1.0})
        assert (kept == 1).all()
    with pytest.raises(ConfigError, match="above 0"):
        layers.dropout(ones, 0.0)


def test_small_functions(graph):
    outputs = [
        layers.one_hot_encoding(tf.constant([1, 0]), 3, on_value=2.0),
        layers.maxout(IMAGE, 3),
        layers.maxout(IMAGE, 2, axis=2),
        layers.unit_norm(IMAGE, 3),
        layers.softmax(IMAGE),
        tf.sparse_tensor_to_dense(layers.dense_to_sparse(tf.constant([[1, 0, 2]])), default_value=9),
    ]
    results = run(outputs)
    exps = np.exp(IMAGE)
    expected = [
        [[0, 2, 0], [2, 0, 0]],
        IMAGE.reshape(2, 3, 4, 3, 2).max(4),
        IMAGE.reshape(2, 3, 2, 2, 6).max(3),
        IMAGE / np.linalg.norm(IMAGE, axis=3, keepdims=True),
        exps / exps.sum(3, keepdims=True),
        [[1, 9, 2]],
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_spatial_softmax(graph):
    outputs = [
        layers.spatial_softmax(IMAGE),
        layers.spatial_softmax(IMAGE.transpose(0, 3, 1, 2), 2.0, data_format="NCHW"),
    ]
    assert names() == ["spatial_softmax/temperature", "spatial_softmax_1/temperature"]
    grid = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    for result, temperature in zip(run(outputs), (1.0, 2.0), strict=True):
        weights = np.exp(IMAGE / temperature)
        weights /= weights.sum((1, 2), keepdims=True)
        expected = np.stack([(weights * axis[:, :, None]).sum((1, 2)) for axis in grid], 2).reshape(2, 12)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_biases(graph):
    outputs = [
        layers.bias_add(IMAGE, activation_fn=tf.nn.relu, regularizer=layers.l2_regularizer(0.1)),
        layers.bias_add(IMAGE.transpose(0, 3, 1, 2), data_format="NCHW"),
    ]
    assert names() == ["BiasAdd/biases", "BiasAdd_1/biases"]
    assert len(tf.losses.get_regularization_losses()) == 1
    given = values()
    results = run(outputs, given)
    np.testing.assert_allclose(results[0], np.maximum(IMAGE + given["BiasAdd/biases"], 0), rtol=1e-5)
    np.testing.assert_allclose(results[1].transpose(0, 2, 3, 1), IMAGE + given["BiasAdd_1/biases"], rtol=1e-5)


def test_layers_one_after_the_other(graph):
    x = tf.zeros([2, 3])
    layers.repeat(x, 2, layers.fully_connected, 3, scope="fc")
    layers.repeat(IMAGE, 1, layers.conv2d, 3, [3, 3])
    layers.stack(x, layers.fully_connected, [3, 4])
    output = layers.stack(x, functools.partial(layers.linear), [(3,), (4, tf.nn.relu)][:1], scope="s")
    weights = [name for name in names() if "weights" in name]
    assert weights == [
        "fc/fc_1/weights",
        "fc/fc_2/weights",
        "Repeat/convolution2d_1/weights",
        "Stack/fully_connected_1/weights",
        "Stack/fully_connected_2/weights",
        "s/s_1/weights",
    ]
    assert output.shape.as_list() == [2, 3]
    with pytest.raises(WrongTypeError, match="stack_args=.*: expected a list"):
        layers.stack(x, layers.fully_connected, 3)


def test_what_cannot_be_is_refused(graph):
    for function, arguments, message in (
        (layers.flatten, (1.0,), "at least one dimension"),
        (layers.maxout, (IMAGE, 4), "num_units=4 .*: expected a divisor"),
        (layers.unit_norm, (IMAGE, 4), "dim=4: expected a dimension"),
        (layers.spatial_softmax, (tf.placeholder(tf.float32, [1, None, 2, 3]),), "known sizes but the batch"),
        (layers.images_to_sequence, (IMAGE[0],), "4 dimensions"),
        (layers.sequence_to_images, (IMAGE[0], 2, "NHWC"), "channels_first or channels_last"),
    ):
        with pytest.raises(ConfigError, match=message):
            function(*arguments)
