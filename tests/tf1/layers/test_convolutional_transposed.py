"""Transposed convolutions: the gradient of a convolution by what it gets."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.layer_checks import randomize_variables


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("num_axes", [2, 3])
def test_they_are_the_gradient_of_a_convolution(graph, rng, num_axes, padding):
    layer_class = {2: tf.layers.Conv2DTranspose, 3: tf.layers.Conv3DTranspose}[num_axes]
    convolve = {2: tf.nn.conv2d, 3: tf.nn.conv3d}[num_axes]
    x = tf.constant(rng.normal(size=[2, 3, 4, 2][: num_axes + 1] + [3]), tf.float32)
    pairs = []
    for kernel_size, stride in [(3, 1), (3, 2), (2, 3)]:
        layer = layer_class(5, kernel_size, stride, padding)
        outputs = layer(x)
        larger = tf.zeros(outputs.shape)
        smaller = convolve(larger, layer.kernel, [1, *[stride] * num_axes, 1], padding.upper())
        (gradient,) = tf.gradients(smaller, larger, x)
        pairs.append((outputs, gradient + layer.bias))
    with tf.Session() as session:
        randomize_variables(session)
        for got, wanted in session.run(pairs):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_an_element_becomes_a_window(graph):
    kernel = np.arange(12, dtype=np.float32).reshape(2, 3, 2, 1)
    outputs = tf.layers.conv2d_transpose(
        tf.constant([[[[1.0], [10.0]]]]), 2, (2, 3), (2, 3), kernel_initializer=tf.constant_initializer(kernel)
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(
            session.run(outputs)[0], np.concatenate([kernel[..., 0], 10 * kernel[..., 0]], 1), rtol=1e-6
        )


def test_sizes_that_come_later_are_enlarged_too(graph):
    x = tf.placeholder(tf.float32, [None, None, 3, 2])
    outputs = tf.layers.conv2d_transpose(x, 4, (3, 1), 2)
    assert outputs.shape.as_list() == [None, None, 6, 4]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(outputs, {x: np.ones([1, 5, 3, 2])}).shape == (1, 11, 6, 4)
