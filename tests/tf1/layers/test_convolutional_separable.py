"""Separable convolutions: each channel by itself, and then a product of matrices at each place."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers.layer_checks import randomize_variables


def each_channel(x, kernel, stride, rate):
    """Convolve the channels of feature maps [batch, height, width, channels] one by one, without padding."""
    reach = [(size - 1) * rate for size in kernel.shape[:2]]
    height, width = (size - r for size, r in zip(x.shape[1:3], reach, strict=True))
    total = 0
    for (i, j), _ in np.ndenumerate(kernel[:, :, 0, 0]):
        part = x[:, i * rate : i * rate + height : stride, j * rate : j * rate + width : stride]
        total = total + part[..., None] * kernel[i, j]
    return total.reshape([*total.shape[:3], -1])


@pytest.mark.parametrize(("stride", "rate"), [(1, 1), (2, 1), (1, 2)])
def test_halves_follow_each_other(graph, rng, stride, rate):
    x = rng.normal(size=[2, 7, 6, 3]).astype(np.float32)
    options = {"strides": stride, "dilation_rate": rate, "depth_multiplier": 2, "activation": "tanh"}
    plane = tf.layers.SeparableConv2D(4, (2, 3), **options)
    row = tf.layers.SeparableConv1D(4, 3, **options)
    causal = tf.layers.SeparableConv1D(4, 3, padding="causal", **options)
    outputs = [plane(x), row(x[:, 0]), causal(x[:, 0])]
    with tf.Session() as session:
        randomize_variables(session)
        got = session.run(outputs)
        weights = session.run([layer.weights for layer in (plane, row, causal)])
    before = np.pad(x[:, :1], [(0, 0), (0, 0), (2 * rate, 0), (0, 0)])
    for value, inputs, (depthwise, pointwise, bias) in zip(got, [x, x[:, :1], before], weights, strict=True):
        is_row = value.ndim == 3
        middle = each_channel(inputs, depthwise[None] if is_row else depthwise, stride, rate)
        wanted = np.tanh(middle @ pointwise.reshape(6, 4) + bias)
        np.testing.assert_allclose(value, wanted[:, 0] if is_row else wanted, rtol=1e-4, atol=1e-5)


def test_each_kernel_has_a_regularizer_of_its_own(graph):
    tf.layers.separable_conv2d(
        tf.zeros([1, 4, 4, 3]),
        5,
        2,
        depthwise_initializer="ones",
        pointwise_initializer="ones",
        depthwise_regularizer=tf.reduce_sum,
        pointwise_regularizer="l1",
        name="s",
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = session.run(tf.losses.get_regularization_losses())
    np.testing.assert_allclose(losses, [2 * 2 * 3, 0.01 * 3 * 5], rtol=1e-5)
    assert [variable.op.name for variable in tf.trainable_variables()] == [
        "s/depthwise_kernel",
        "s/pointwise_kernel",
        "s/bias",
    ]
