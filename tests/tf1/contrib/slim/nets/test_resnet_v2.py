"""Residual networks whose units begin with a normalisation have the variables of the published checkpoints."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim.nets import resnet_v2


@pytest.mark.usefixtures("graph")
def test_the_variables_of_50_layers():
    with slim.arg_scope(resnet_v2.resnet_arg_scope()):
        logits, _ = resnet_v2.resnet_v2_50(tf.zeros([1, 64, 64, 3]), 1000, is_training=False)
    names = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
    assert len(names) == 272
    assert names["resnet_v2_50/conv1/biases"] == [64]
    assert names["resnet_v2_50/block3/unit_6/bottleneck_v2/preact/gamma"] == [1024]
    assert names["resnet_v2_50/postnorm/moving_variance"] == [2048]
    assert logits.shape.as_list() == [1, 1, 1, 1000]
