"""The parts of residual networks: blocks of units, and the default arguments of their layers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.framework.scoping import add_arg_scope, arg_scope
from tpack.tf1.contrib.layers.batch_normalization import batch_norm
from tpack.tf1.contrib.layers.convolutions import conv2d
from tpack.tf1.contrib.layers.layer_weights import l2_regularizer, variance_scaling_initializer
from tpack.tf1.contrib.layers.pooling import max_pool2d
from tpack.tf1.contrib.layers.utils import collect_named_outputs, convert_collection_to_dict

Built = tuple[tf.Tensor, dict[str, tf.Tensor]]
"""The output of a network, and its end points by name."""


class Block(NamedTuple):
    """A block of residual units.

    Attributes:
        scope: its name.
        unit_fn: the function of a unit.
        args: the arguments of each unit.
    """

    scope: str
    unit_fn: Callable[..., tf.Tensor]
    args: Sequence[Mapping[str, int]]


def bottleneck_block(
    scope: str, unit_fn: Callable[..., tf.Tensor], base_depth: int, num_units: int, stride: int
) -> Block:
    """Return a block of bottlenecks, of which the last one has the stride."""
    unit = {"depth": 4 * base_depth, "depth_bottleneck": base_depth}
    return Block(scope, unit_fn, [{**unit, "stride": 1}] * (num_units - 1) + [{**unit, "stride": stride}])


def subsample(inputs: tf.Tensor, factor: int, scope: str | None = None) -> tf.Tensor:
    """Return every ``factor``-th pixel of a feature map."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: tf.Tensor, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: str | None = None
) -> tf.Tensor:
    """Return a convolution whose padding does not depend on the size of the feature map, as ``"SAME"`` does."""
    if stride == 1:
        return conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    total = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    before, after = total // 2, total - total // 2
    padded = tf.pad(inputs, [[0, 0], [before, after], [before, after], [0, 0]])
    return conv2d(padded, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


@add_arg_scope
def stack_blocks_dense(
    net: tf.Tensor, blocks: Sequence[Block], output_stride: int | None = None, outputs_collections: Any = None
) -> tf.Tensor:
    """Return the output of blocks, one after another.

    Args:
        net: the feature map.
        blocks: the blocks.
        output_stride: the largest stride of all units together; from there on convolutions are dilated instead.
        outputs_collections: those of the outputs of the blocks.

    Raises:
        ValueError: The strides of the units do not give ``output_stride``.
    """
    stride, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as scope:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise ValueError(f"stack_blocks_dense got output_stride={output_stride}: the units have {stride}")
                with tf.variable_scope(f"unit_{number}", values=[net]):
                    if stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, scope.name, net)
    if output_stride is not None and stride != output_stride:
        raise ValueError(f"stack_blocks_dense got output_stride={output_stride}: the units have {stride}")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """Return the default arguments of the layers of a residual network, for ``with slim.arg_scope(...)``."""
    of_norm = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }
    of_convolution = {
        "weights_regularizer": l2_regularizer(weight_decay),
        "weights_initializer": variance_scaling_initializer(),
        "activation_fn": tf.nn.relu,
        "normalizer_fn": batch_norm,
        "normalizer_params": of_norm,
    }
    with (
        arg_scope([conv2d], **of_convolution),
        arg_scope([batch_norm], **of_norm),
        arg_scope([max_pool2d], padding="SAME") as scope,
    ):
        return scope


class LastLayers(NamedTuple):
    """The last layers of a network: the number of classes, and whether the feature map is averaged."""

    num_classes: int | None
    global_pool: bool


def build(
    inputs: tf.Tensor,
    scope: Any,
    body: Callable[[tf.Tensor], tf.Tensor],
    bottleneck: Callable[..., tf.Tensor],
    head: LastLayers,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return the output and the end points of a network in an open variable scope.

    Args:
        inputs: the images.
        scope: the variable scope.
        body: everything before the head.
        bottleneck: the unit, whose outputs are end points.
        head: the last layers.
    """
    collection = f"{scope.original_name_scope}_end_points"
    with arg_scope([conv2d, bottleneck, stack_blocks_dense], outputs_collections=collection):
        net = body(inputs)
        if head.global_pool:
            net = tf.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
        if head.num_classes is not None:
            net = conv2d(net, head.num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
        end_points = convert_collection_to_dict(collection)
        if head.num_classes is not None:
            end_points["predictions"] = tf.nn.softmax(net, name="predictions/Softmax")
        return net, end_points


def network_of_depth(
    network: Callable[..., Built], block: Callable[..., Block], name: str, num_units: Sequence[int]
) -> Callable[..., Built]:
    """Return the function of a network of four blocks, whose arguments are those of ``network`` but for the blocks.

    Args:
        network: the function of a network of any blocks.
        block: returns a block from its scope, depth, number of units and stride.
        name: of the function, and the default scope.
        num_units: those of each block.
    """
    parts = enumerate(zip(num_units, (2, 2, 2, 1), strict=True))
    blocks = [block(f"block{index + 1}", 64 << index, units, stride) for index, (units, stride) in parts]

    def build(
        inputs: tf.Tensor,
        num_classes: int | None = None,
        is_training: bool = True,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: Any = None,
        scope: str = name,
    ) -> Built:
        return network(inputs, blocks, num_classes, is_training, global_pool, output_stride, True, reuse, scope)

    build.__name__ = build.__qualname__ = name
    build.__module__ = network.__module__
    build.__doc__ = (
        f"Return the output and end points of the network of {3 * sum(num_units) + 2} layers; for arguments see "
        f"`{network.__name__}`."
    )
    return build
