"""Networks of 3 x 3 convolutions have the variables of the published checkpoints."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim.nets import vgg


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(("build", "layers"), [(vgg.vgg_a, 11), (vgg.vgg_16, 16), (vgg.vgg_19, 19)])
def test_the_variables_of_a_network(build, layers):
    with slim.arg_scope(vgg.vgg_arg_scope()):
        logits, end_points = build(tf.zeros([1, 224, 224, 3]), is_training=False)
    names = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
    name = build.__name__
    assert len(names) == 2 * layers
    assert names[f"{name}/conv2/conv2_1/weights"] == [3, 3, 64, 128]
    assert names[f"{name}/fc6/weights"] == [7, 7, 512, 4096]
    assert logits.shape.as_list() == [1, 1000]
    assert end_points[f"{name}/fc8"] is logits
    assert end_points[f"{name}/pool5"].shape.as_list() == [1, 7, 7, 512]
    assert (build.default_image_size, vgg.vgg_d) == (224, vgg.vgg_16)
