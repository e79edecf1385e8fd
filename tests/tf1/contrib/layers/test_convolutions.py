"""Convolutions: names as TensorFlow 1.15 made them, values by loops over kernels in numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, shapes, values
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers
from tpack.tf1.contrib.framework import arg_scope

IMAGE = np.random.RandomState(0).randn(2, 5, 6, 3).astype("f")


def convolved(x, kernel, bias=0.0, rate=1, depthwise=False):
    """Convolve without padding and with a stride of 1, in any number of dimensions."""
    sizes = kernel.shape[:-2]
    new = [n - (k - 1) * rate for n, k in zip(x.shape[1:-1], sizes, strict=True)]
    total = 0.0
    for place in np.ndindex(*sizes):
        window = x[(slice(None), *[slice(at * rate, at * rate + n) for at, n in zip(place, new, strict=True)])]
        if depthwise:
            product = window[..., None] * kernel[place]
            total = total + product.reshape(*product.shape[:-2], -1)
        else:
            total = total + window @ kernel[place]
    return np.maximum(total + bias, 0)


def test_convolutions_of_each_dimension(graph):
    inputs = {1: IMAGE[:, 0], 2: IMAGE, 3: np.stack([IMAGE, 2 * IMAGE], 1)}
    functions = {1: layers.conv1d, 2: layers.conv2d, 3: layers.conv3d}
    outputs = [functions[rank](tf.constant(x), 4, 2, padding="VALID") for rank, x in inputs.items()]
    outputs.append(layers.convolution(tf.constant(IMAGE), 4, [2, 1], padding="VALID", rate=[2, 1]))
    assert names()[:4] == ["Conv/weights", "Conv/biases", "Conv_1/weights", "Conv_1/biases"]
    assert [output.op.name for output in outputs] == ["Conv/Relu", "Conv_1/Relu", "Conv_2/Relu", "Conv_3/Relu"]
    given = values()
    results = run(outputs, given)
    for scope, x, rate, result in zip(
        ("Conv", "Conv_1", "Conv_2", "Conv_3"), [*inputs.values(), IMAGE], [1, 1, 1, 2], results, strict=True
    ):
        expected = convolved(x, given[f"{scope}/weights"], given[f"{scope}/biases"], rate)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_channels_may_come_first(graph):
    first = tf.constant(IMAGE.transpose(0, 3, 1, 2))
    outputs = []
    with arg_scope([layers.conv2d, layers.separable_conv2d], padding="VALID", stride=2), tf.variable_scope("l"):
        outputs += [layers.conv2d(IMAGE, 4, 3), layers.separable_conv2d(IMAGE, 4, 3, 2)]
        tf.get_variable_scope().reuse_variables()
        outputs += [
            layers.conv2d(first, 4, 3, data_format="NCHW", scope="Conv"),
            layers.separable_conv2d(first, 4, 3, 2, data_format="NCHW", scope="SeparableConv2d"),
        ]
    results = run(outputs, values())
    for last, other in zip(results[:2], results[2:], strict=True):
        np.testing.assert_allclose(other.transpose(0, 2, 3, 1), last, rtol=1e-4, atol=1e-5)


def test_convolutions_of_each_channel(graph):
    regularizer = layers.l2_regularizer(0.1)
    outputs = [
        layers.conv2d_in_plane(IMAGE, [2, 1], padding="VALID"),
        layers.separable_conv2d(IMAGE, None, 2, 2, padding="VALID"),
        layers.separable_conv2d(IMAGE, 4, 2, 2, padding="VALID", weights_regularizer=regularizer),
    ]
    assert shapes() == {
        "ConvInPlane/weights": [2, 1, 1, 1],
        "ConvInPlane/biases": [3],
        "SeparableConv2d/depthwise_weights": [2, 2, 3, 2],
        "SeparableConv2d/biases": [6],
        "SeparableConv2d_1/depthwise_weights": [2, 2, 3, 2],
        "SeparableConv2d_1/pointwise_weights": [1, 1, 6, 4],
        "SeparableConv2d_1/biases": [4],
    }
    losses = [tf.convert_to_tensor(loss).op.name.split("/")[1] for loss in tf.losses.get_regularization_losses()]
    assert losses == ["depthwise_kernel", "pointwise_kernel"]
    given = values()
    results = run(outputs, given)
    same = np.tile(given["ConvInPlane/weights"], [1, 1, 3, 1])
    expected = convolved(IMAGE, same, given["ConvInPlane/biases"], depthwise=True)
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-5)
    kernel = given["SeparableConv2d/depthwise_weights"]
    expected = convolved(IMAGE, kernel, given["SeparableConv2d/biases"], depthwise=True)
    np.testing.assert_allclose(results[1], expected, rtol=1e-4, atol=1e-5)
    second = "SeparableConv2d_1/"
    kernel = np.einsum(
        "hwcm,cmo->hwco", given[second + "depthwise_weights"], given[second + "pointwise_weights"].reshape(3, 2, 4)
    )
    expected = convolved(IMAGE, kernel, given[second + "biases"])
    np.testing.assert_allclose(results[2], expected, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_is_refused(graph):
    for function, options, message in (
        (layers.conv2d, {"inputs": IMAGE[0]}, "expected 4 dimensions"),
        (layers.convolution, {"inputs": IMAGE[0, 0]}, "3 or 4 or 5 dimensions"),
        (layers.conv2d, {"data_format": "HWC"}, "data_format=.*expected one of"),
        (layers.conv2d, {"stride": 2, "rate": 2}, "expected one of them to be 1"),
        (layers.separable_conv2d, {"data_format": "NWC"}, "data_format=.*expected one of"),
    ):
        with pytest.raises(ConfigError, match=message):
            function(**{"inputs": IMAGE, "num_outputs": 3, "kernel_size": 3, **options})
    assert names() == []
