"""Pooling: the maximum or the average over windows of a feature map, or over all of it."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.aliases import argument_aliases
from tpack.models.cpu_kernels import steps_in_format
from tpack.models.data_format import check_rank, check_sizes, is_channels_first, spatial_axes
from tpack.models.padding import parse_rule
from tpack.models.registry import layer_register
from tpack.models.steps import Step, run_steps

__all__ = ["AvgPooling", "GlobalAvgPooling", "MaxPooling"]


@layer_register(log_shape=True)
@argument_aliases(shape="pool_size", stride="strides")
def MaxPooling(  # noqa: N802
    inputs: Any,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> Any:
    """Take the maximum of each window.

    Args:
        inputs: the feature map.
        pool_size: height and width of a window, or one number for both.
        strides: how far apart windows are; None for their size.
        padding: ``"same"`` or ``"valid"`` in any case. Padded elements do not count.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, channels], or both with the channels first.

    Raises:
        ConfigError: The input is not four-dimensional, or a size or the padding cannot be.
    """
    return _pool("MaxPooling", tf.nn.max_pool2d, inputs, (pool_size, strides, padding), data_format)


@layer_register(log_shape=True)
@argument_aliases(shape="pool_size", stride="strides")
def AvgPooling(  # noqa: N802
    inputs: Any,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> Any:
    """Take the average of each window.

    Args:
        inputs: the feature map.
        pool_size: height and width of a window, or one number for both.
        strides: how far apart windows are; None for their size.
        padding: ``"same"`` or ``"valid"`` in any case. Padded elements do not count.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, channels], or both with the channels first.

    Raises:
        ConfigError: The input is not four-dimensional, or a size or the padding cannot be.
    """
    return _pool("AvgPooling", tf.nn.avg_pool2d, inputs, (pool_size, strides, padding), data_format)


@layer_register(log_shape=True)
def GlobalAvgPooling(x: Any, data_format: str = "channels_last") -> Any:  # noqa: N802
    """Take the average over height and width.

    Args:
        x: the feature map.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.

    Shapes:
        [batch, height, width, channels], or with the channels first, to [batch, channels].

    Raises:
        ConfigError: The input is not four-dimensional.
    """
    check_rank("GlobalAvgPooling", x, 4)
    return run_steps(x, [lambda x, name: tf.reduce_mean(x, spatial_axes(data_format), name=name)])


def _pool(kind: str, operation: Callable[..., Any], inputs: Any, window: tuple[Any, Any, Any], data_format: str) -> Any:
    pool_size, strides, padding = window
    check_rank(kind, inputs, 4)
    size, rule = check_sizes(kind, "pool_size", pool_size), parse_rule(kind, padding)
    stride = size if strides is None else check_sizes(kind, "strides", strides)

    def make_steps(short_format: str) -> list[Step]:
        return [lambda x, name: operation(x, size, stride, rule, data_format=short_format, name=name)]

    channels_first = is_channels_first(data_format)
    return run_steps(inputs, steps_in_format(make_steps, inputs.dtype.base_dtype, channels_first=channels_first))
