"""Residual networks of 50 to 200 layers whose units begin with batch normalisation.

Source:
    Identity Mappings in Deep Residual Networks (arXiv:1603.05027), with the stride of a block in its last unit.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.framework.scoping import add_arg_scope, arg_scope
from tpack.tf1.contrib.layers.batch_normalization import batch_norm
from tpack.tf1.contrib.layers.convolutions import conv2d
from tpack.tf1.contrib.layers.pooling import max_pool2d
from tpack.tf1.contrib.layers.utils import collect_named_outputs
from tpack.tf1.contrib.slim.nets import resnet_utils
from tpack.tf1.contrib.slim.nets.resnet_utils import Block, Built, LastLayers

resnet_arg_scope = resnet_utils.resnet_arg_scope


@add_arg_scope
def bottleneck(
    inputs: tf.Tensor,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the output of a unit of three convolutions and a shortcut.

    Args:
        inputs: the feature map.
        depth: the channels of the output.
        depth_bottleneck: the channels of the first two convolutions.
        stride: of the second convolution and the shortcut.
        rate: the dilation of the second convolution.
        outputs_collections: those of the output.
        scope: the variable scope.
    """
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as unit:
        normalized = batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        plain = {"normalizer_fn": None, "activation_fn": None}
        if depth == inputs.shape[-1]:
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(normalized, depth, [1, 1], stride=stride, scope="shortcut", **plain)
        residual = conv2d(normalized, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, scope="conv3", **plain)
        return collect_named_outputs(outputs_collections, unit.name, shortcut + residual)


def resnet_v2(
    inputs: tf.Tensor,
    blocks: Sequence[Block],
    num_classes: int | None = None,
    is_training: bool = True,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: str | None = None,
) -> Built:
    """Return the output of a network of blocks, and its end points by name.

    Args:
        inputs: the images.
        blocks: the blocks, see `resnet_v2_block`.
        num_classes: the channels of the logits; None leaves them out.
        is_training: whether batch normalisation uses the batch.
        global_pool: average over height and width.
        output_stride: the stride of all layers together; more is reached by dilation.
        include_root_block: begin with a convolution and pooling, of stride 4 together.
        reuse: of the variable scope.
        scope: its name.

    Raises:
        ValueError: ``output_stride`` is impossible.
    """

    def body(net: tf.Tensor) -> tf.Tensor:
        nonlocal output_stride
        with arg_scope([batch_norm], is_training=is_training):
            if include_root_block:
                if output_stride is not None:
                    if output_stride % 4:
                        raise ValueError(f"resnet_v2 got output_stride={output_stride}: expected a multiple of 4")
                    output_stride //= 4
                # The first unit normalises.
                with arg_scope([conv2d], activation_fn=None, normalizer_fn=None):
                    net = resnet_utils.conv2d_same(net, 64, 7, stride=2, scope="conv1")
                net = max_pool2d(net, [3, 3], stride=2, scope="pool1")
            net = resnet_utils.stack_blocks_dense(net, blocks, output_stride)
            return batch_norm(net, activation_fn=tf.nn.relu, scope="postnorm")

    with tf.variable_scope(scope, "resnet_v2", [inputs], reuse=reuse) as opened:
        return resnet_utils.build(inputs, opened, body, bottleneck, LastLayers(num_classes, global_pool))


resnet_v2.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Return a block of bottlenecks, of which the last one has the stride."""
    return resnet_utils.bottleneck_block(scope, bottleneck, base_depth, num_units, stride)


_of_depth = partial(resnet_utils.network_of_depth, resnet_v2, resnet_v2_block)

resnet_v2_50 = _of_depth("resnet_v2_50", (3, 4, 6, 3))
resnet_v2_101 = _of_depth("resnet_v2_101", (3, 4, 23, 3))
resnet_v2_152 = _of_depth("resnet_v2_152", (3, 8, 36, 3))
resnet_v2_200 = _of_depth("resnet_v2_200", (3, 24, 36, 3))
