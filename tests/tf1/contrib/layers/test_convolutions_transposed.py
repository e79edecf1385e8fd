"""Transposed convolutions: the transposes of convolutions."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import names, run, shapes, values
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers

IMAGE = np.random.RandomState(0).randn(2, 4, 5, 3).astype("f")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_it_is_the_gradient_of_a_convolution(graph, padding):
    x = tf.placeholder(tf.float32, [None, 4, None, 3])
    outputs = layers.conv2d_transpose(x, 4, [3, 2], [2, 3], padding, activation_fn=None)
    assert shapes() == {"Conv2d_transpose/weights": [3, 2, 4, 3], "Conv2d_transpose/biases": [4]}
    assert outputs.shape.as_list() == [None, 8 if padding == "SAME" else 9, None, 4]
    kernel, bias = tf.global_variables()
    larger = tf.zeros([2, 8 if padding == "SAME" else 9, 15, 4])
    forward = tf.nn.conv2d(larger, kernel, [1, 2, 3, 1], padding)
    result, expected = run([outputs, tf.gradients(forward, larger, IMAGE)[0] + bias], values(), {x: IMAGE})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_three_dimensions_and_channels_first(graph):
    volume = np.stack([IMAGE, 2 * IMAGE], 1)
    options = {"num_outputs": 2, "kernel_size": 2, "stride": 2, "biases_initializer": None}
    last = layers.conv3d_transpose(volume, **options)
    first = layers.conv3d_transpose(
        volume.transpose(0, 4, 1, 2, 3), data_format="NCDHW", scope="Conv3d_transpose", reuse=True, **options
    )
    assert names() == ["Conv3d_transpose/weights"]
    assert last.shape.as_list() == [2, 4, 8, 10, 2]
    one, other = run([last, tf.transpose(first, [0, 2, 3, 4, 1])])
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ConfigError, match="expected 4 dimensions"):
        layers.conv2d_transpose(IMAGE[0], 3, 3)
    with pytest.raises(ConfigError, match="expected one of NDHWC, NCDHW"):
        layers.conv3d_transpose(IMAGE[None], 3, 3, data_format="NHWC")
