"""Residual networks have the variables of the published checkpoints."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim.nets import resnet_v1, resnet_v2

pytestmark = pytest.mark.usefixtures("graph")

SMALL = {1: (resnet_v1.resnet_v1, resnet_v1.resnet_v1_block), 2: (resnet_v2.resnet_v2, resnet_v2.resnet_v2_block)}


def test_the_variables_of_50_layers():
    with slim.arg_scope(resnet_v1.resnet_arg_scope()):
        logits, end_points = resnet_v1.resnet_v1_50(tf.zeros([1, 64, 64, 3]), 1000, is_training=False)
    names = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
    assert len(names) == 267
    assert names["resnet_v1_50/conv1/weights"] == [7, 7, 3, 64]
    assert names["resnet_v1_50/block2/unit_4/bottleneck_v1/conv3/BatchNorm/moving_mean"] == [512]
    assert names["resnet_v1_50/logits/biases"] == [1000]
    assert logits.shape.as_list() == [1, 1, 1, 1000]
    assert end_points["resnet_v1_50/block4"].shape.as_list() == [1, 2, 2, 2048]
    assert end_points["predictions"].shape.as_list() == [1, 1, 1, 1000]
    assert resnet_v1.resnet_v1.default_image_size == 224


@pytest.mark.parametrize("version", SMALL)
def test_training_updates_averages_and_penalizes_weights(version):
    build, block = SMALL[version]
    with slim.arg_scope(resnet_v1.resnet_arg_scope()):
        net, _ = build(tf.zeros([2, 32, 32, 3]), [block("block1", 4, 2, 2)], global_pool=False)
    # Of the last unit of version 2 the sum is normalised; its first convolution is not.
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == {1: 2 * 8, 2: 2 * 7}[version]
    assert len(tf.losses.get_regularization_losses()) == 8
    assert net.shape.as_list() == [2, 4, 4, 16]
    scopes = {variable.op.name.split("/")[1] for variable in tf.global_variables()}
    assert scopes == {1: {"conv1", "block1"}, 2: {"conv1", "block1", "postnorm"}}[version]


def test_a_stride_that_the_root_exceeds_is_refused():
    with pytest.raises(ValueError, match="resnet_v1 got output_stride=6: expected a multiple of 4"):
        resnet_v1.resnet_v1_50(tf.zeros([1, 32, 32, 3]), output_stride=6)
