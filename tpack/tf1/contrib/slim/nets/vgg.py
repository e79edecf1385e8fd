"""Networks of 3 x 3 convolutions: VGG of 11, 16 and 19 layers.

Source:
    Very Deep Convolutional Networks for Large-Scale Image Recognition (arXiv:1409.1556).
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.framework.scoping import arg_scope
from tpack.tf1.contrib.layers.convolutions import conv2d
from tpack.tf1.contrib.layers.dense import fully_connected
from tpack.tf1.contrib.layers.layer_parts import dropout, repeat
from tpack.tf1.contrib.layers.layer_weights import l2_regularizer
from tpack.tf1.contrib.layers.pooling import max_pool2d
from tpack.tf1.contrib.layers.utils import convert_collection_to_dict

Built = tuple[tf.Tensor, dict[str, tf.Tensor]]

_CHANNELS = (64, 128, 256, 512, 512)


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Return the default arguments of the layers, for ``with slim.arg_scope(...)``."""
    of_layer = {
        "activation_fn": tf.nn.relu,
        "weights_regularizer": l2_regularizer(weight_decay),
        "biases_initializer": tf.zeros_initializer(),
    }
    with arg_scope([conv2d, fully_connected], **of_layer), arg_scope([conv2d], padding="SAME") as scope:
        return scope


def _build(
    num_layers: Sequence[int],
    inputs: tf.Tensor,
    num_classes: int,
    is_training: bool,
    keep_prob: float,
    spatial_squeeze: bool,
    scope: str,
    default_scope: str,
) -> Built:
    """Return the logits and the end points of a network with so many convolutions in its blocks."""
    with tf.variable_scope(scope, default_scope, [inputs]) as opened:
        collection = f"{opened.name}_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=collection):
            net = inputs
            for index, (layers, channels) in enumerate(zip(num_layers, _CHANNELS, strict=True), 1):
                net = repeat(net, layers, conv2d, channels, [3, 3], scope=f"conv{index}")
                net = max_pool2d(net, [2, 2], scope=f"pool{index}")
            net = conv2d(net, 4096, [7, 7], padding="VALID", scope="fc6")
            net = dropout(net, keep_prob, is_training=is_training, scope="dropout6")
            net = conv2d(net, 4096, [1, 1], scope="fc7")
            net = dropout(net, keep_prob, is_training=is_training, scope="dropout7")
            net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
            end_points = convert_collection_to_dict(collection)
            if spatial_squeeze:
                net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
                end_points[f"{opened.name}/fc8"] = net
            return net, end_points


def vgg_a(
    inputs: tf.Tensor,
    num_classes: int = 1000,
    is_training: bool = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_a",
) -> Built:
    """Return the logits and end points of the network of 11 layers.

    Args:
        inputs: the images, of 224 pixels for one vector of logits each.
        num_classes: the number of logits.
        is_training: whether values are dropped.
        dropout_keep_prob: the part of values that is kept.
        spatial_squeeze: remove height and width of the logits.
        scope: the variable scope.
    """
    options = (num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope)
    return _build((1, 1, 2, 2, 2), inputs, *options, "vgg_a")


def vgg_16(
    inputs: tf.Tensor,
    num_classes: int = 1000,
    is_training: bool = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_16",
) -> Built:
    """Return the logits and end points of the network of 16 layers; for arguments see `vgg_a`."""
    options = (num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope)
    return _build((2, 2, 3, 3, 3), inputs, *options, "vgg_16")


def vgg_19(
    inputs: tf.Tensor,
    num_classes: int = 1000,
    is_training: bool = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "vgg_19",
) -> Built:
    """Return the logits and end points of the network of 19 layers; for arguments see `vgg_a`."""
    options = (num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope)
    return _build((2, 2, 4, 4, 4), inputs, *options, "vgg_19")


for _made in (vgg_a, vgg_16, vgg_19):
    _made.default_image_size = 224  # type: ignore[attr-defined]
vgg_d, vgg_e = vgg_16, vgg_19
