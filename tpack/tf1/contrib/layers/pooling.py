"""Maxima and means over windows of a feature map."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import check_format, in_format
from tpack.tf1.contrib.layers.utils import collect_named_outputs, n_positive_integers


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the maxima over windows of height and width.

    Args:
        inputs: a feature map.
        kernel_size: height and width of the window, or one number for both; so is ``stride``.
        stride: how far apart the windows are.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        outputs_collections: where the output goes.
        scope: the name scope, ``MaxPool2D`` by default.

    Raises:
        ConfigError: The input has another number of dimensions, or an argument cannot work.
    """
    check_format(data_format)
    with tf.name_scope(scope, "MaxPool2D", [inputs]) as sc:
        outputs = _pool(tf.nn.max_pool, inputs, kernel_size, stride, padding, data_format)
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the means over windows of height and width, in the name scope ``AvgPool2D``; see `max_pool2d`."""
    check_format(data_format)
    with tf.name_scope(scope, "AvgPool2D", [inputs]) as sc:
        outputs = _pool(tf.nn.avg_pool, inputs, kernel_size, stride, padding, data_format)
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def max_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the maxima over windows of three dimensions, in the name scope ``MaxPool3D``; see `max_pool2d`."""
    check_format(data_format, ("NDHWC", "NCDHW"))
    with tf.name_scope(scope, "MaxPool3D", [inputs]) as sc:
        outputs = _pool(tf.nn.max_pool3d, inputs, kernel_size, stride, padding, data_format)
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def avg_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the means over windows of three dimensions, in the name scope ``AvgPool3D``; see `max_pool2d`."""
    check_format(data_format, ("NDHWC", "NCDHW"))
    with tf.name_scope(scope, "AvgPool3D", [inputs]) as sc:
        outputs = _pool(tf.nn.avg_pool3d, inputs, kernel_size, stride, padding, data_format)
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Return the maxima or means over windows of one to three dimensions.

    Args:
        inputs: a feature map of three to five dimensions.
        kernel_size: the size of the window: one for each dimension, or one for all; so are the next two.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: where the channels are: last, or first if it begins with ``"NC"``.
        dilation_rate: how far apart the elements of the window are.
        stride: how far apart the windows are.
        outputs_collections: where the output goes.
        scope: the name scope, ``max_pool`` or ``avg_pool`` by default.

    Raises:
        ConfigError: The input has another number of dimensions, or an argument cannot work.
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ConfigError(f"pooling_type has to be 'MAX' or 'AVG', got {pooling_type!r}")
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.rank not in (3, 4, 5):
            raise ConfigError(f"expected an input of 3, 4 or 5 dimensions, got the shape {inputs.shape}")
        spatial = inputs.shape.rank - 2
        sizes, dilations, strides = (n_positive_integers(spatial, n) for n in (kernel_size, dilation_rate, stride))

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            options: dict[str, Any] = {"data_format": short, "name": sc if short == original else None}
            return tf.nn.pool(x, sizes, pooling_type, padding.upper(), dilations, strides, **options)

        letters = {1: "W", 2: "HW", 3: "DHW"}[spatial]
        is_first = data_format is not None and data_format.startswith("NC")
        original = f"NC{letters}" if is_first else f"N{letters}C"
        return collect_named_outputs(outputs_collections, sc, in_format(operation, inputs, data_format or "NHWC"))


def _pool(
    function: Callable[..., tf.Tensor], inputs: Any, kernel_size: Any, stride: Any, padding: str, data_format: str
) -> tf.Tensor:
    inputs = tf.convert_to_tensor(inputs)
    if inputs.shape.rank != len(data_format):
        raise ConfigError(f"expected an input of {len(data_format)} dimensions, got the shape {inputs.shape}")
    spatial = len(data_format) - 2
    sizes, strides = n_positive_integers(spatial, kernel_size), n_positive_integers(spatial, stride)

    def operation(x: tf.Tensor, short: str) -> tf.Tensor:
        window, steps = ([1, *n, 1] if short.endswith("C") else [1, 1, *n] for n in (sizes, strides))
        return function(x, window, steps, padding.upper(), short)

    return in_format(operation, inputs, data_format)
