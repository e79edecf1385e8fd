"""Maxima and means over windows of a feature map."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import check_format, check_rank, in_format
from tpack.tf1.contrib.layers.utils import collect_named_outputs, n_positive_integers
from tpack.tf1.signatures import like


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
        kernel_size: height and width of the window, or one number for both, like ``stride``.
        stride: the distance of the windows.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        outputs_collections: those of the output.
        scope: the name scope, ``MaxPool2D`` by default.

    Raises:
        ConfigError: The input has another number of dimensions, or an argument cannot work.
    """
    return _pool(tf.nn.max_pool, "MaxPool2D", **locals())


@add_arg_scope
@like(max_pool2d)
def avg_pool2d(**given: Any) -> tf.Tensor:
    """Return the means over windows of height and width, in the name scope ``AvgPool2D``; see `max_pool2d`."""
    return _pool(tf.nn.avg_pool, "AvgPool2D", **given)


@add_arg_scope
@like(max_pool2d, data_format="NDHWC")
def max_pool3d(**given: Any) -> tf.Tensor:
    """Return the maxima over windows of three dimensions, in the name scope ``MaxPool3D``; see `max_pool2d`."""
    return _pool(tf.nn.max_pool3d, "MaxPool3D", **given)


@add_arg_scope
@like(max_pool2d, data_format="NDHWC")
def avg_pool3d(**given: Any) -> tf.Tensor:
    """Return the means over windows of three dimensions, in the name scope ``AvgPool3D``; see `max_pool2d`."""
    return _pool(tf.nn.avg_pool3d, "AvgPool3D", **given)


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
        kernel_size: one size for each dimension of the window, or one for all, like ``dilation_rate`` and ``stride``.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: channels last, or first if it begins with ``"NC"``.
        dilation_rate: the distance of the window's elements.
        stride: the distance of the windows.
        outputs_collections: those of the output.
        scope: the name scope, ``max_pool`` or ``avg_pool`` by default.

    Raises:
        ConfigError: The input has another number of dimensions, or an argument cannot work.
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ConfigError(f"pool got pooling_type={pooling_type!r}: expected 'MAX' or 'AVG'")
    with tf.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        check_rank(inputs, (3, 4, 5))
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
    function: Callable[..., tf.Tensor],
    default_scope: str,
    *,
    inputs: Any,
    kernel_size: Any,
    stride: Any,
    padding: str,
    data_format: str,
    outputs_collections: Any,
    scope: str | None,
) -> tf.Tensor:
    check_format(data_format, ("NDHWC", "NCDHW") if default_scope.endswith("3D") else ("NHWC", "NCHW"))

    def operation(x: tf.Tensor, short: str) -> tf.Tensor:
        window, steps = ([1, *n, 1] if short.endswith("C") else [1, 1, *n] for n in (sizes, strides))
        return function(x, window, steps, padding.upper(), short)

    with tf.name_scope(scope, default_scope, [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        check_rank(inputs, [len(data_format)])
        sizes, strides = (n_positive_integers(len(data_format) - 2, n) for n in (kernel_size, stride))
        return collect_named_outputs(outputs_collections, sc, in_format(operation, inputs, data_format))
