"""The parts of residual networks."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim.nets import resnet_utils, resnet_v1

pytestmark = pytest.mark.usefixtures("graph")


def test_every_second_pixel_is_taken():
    image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    with tf.Session() as session:
        taken = session.run(resnet_utils.subsample(image, 2))
    np.testing.assert_array_equal(taken[0, :, :, 0], [[0, 2], [8, 10]])
    assert resnet_utils.subsample(image, 1) is image


@pytest.mark.parametrize(("size", "stride", "rate", "after"), [(5, 2, 1, 3), (6, 2, 1, 3), (6, 1, 2, 6)])
def test_padding_of_a_convolution_does_not_depend_on_the_size(size, stride, rate, after):
    image = tf.zeros([1, size, size, 2])
    assert resnet_utils.conv2d_same(image, 3, 3, stride, rate).shape.as_list() == [1, after, after, 3]


def blocks(*strides):
    return [resnet_v1.resnet_v1_block(f"block{index}", 2, 2, stride) for index, stride in enumerate(strides, 1)]


@pytest.mark.parametrize(("output_stride", "size"), [(None, 4), (4, 4), (2, 8), (1, 16)])
def test_blocks_have_the_stride_that_was_asked_for(output_stride, size):
    image = tf.zeros([1, 16, 16, 3])
    with slim.arg_scope(resnet_utils.resnet_arg_scope()):
        out = resnet_utils.stack_blocks_dense(image, blocks(2, 2), output_stride)
    assert out.shape.as_list() == [1, size, size, 8]


@pytest.mark.parametrize("impossible", [3, 8])
def test_an_impossible_stride_is_refused(impossible):
    with pytest.raises(ValueError, match=f"got output_stride={impossible}: the units have 4"):
        resnet_utils.stack_blocks_dense(tf.zeros([1, 16, 16, 3]), blocks(2, 2), impossible)
