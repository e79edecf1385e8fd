"""Pooling over windows of a feature map or over all of it, and unpooling, which multiplies each number by a matrix."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.errors import ConfigError
from tpack.models.arguments import check_rank, check_sizes, layer_error, layer_name, parse_rule
from tpack.models.data_format import is_channels_first, sizes_of, spatial_axes, steps_in_format
from tpack.models.registry import argument_aliases, layer_register
from tpack.models.steps import Step, run_steps
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)

__all__ = ["AvgPooling", "FixedUnPooling", "GlobalAvgPooling", "MaxPooling"]

_Sizes: TypeAlias = int | Sequence[int]


@layer_register(log_shape=True)
@argument_aliases(shape="pool_size", stride="strides")
@check_arguments
def MaxPooling(  # noqa: N802
    inputs: tf.Tensor,
    pool_size: _Sizes,
    strides: _Sizes | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Take the maximum of each window.

    Args:
        inputs: the feature map.
        pool_size: height and width of a window, or one number for both.
        strides: the distance of windows; None for their size.
        padding: ``"same"`` or ``"valid"`` in any case. Padded elements do not count.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, channels], or both with the channels first.

    Raises:
        ConfigError: The input is not four-dimensional, or a size or the padding is invalid.
    """
    return _pool("MaxPooling", tf.nn.max_pool2d, inputs, (pool_size, strides, padding), data_format)


@layer_register(log_shape=True)
@argument_aliases(shape="pool_size", stride="strides")
@check_arguments
def AvgPooling(  # noqa: N802
    inputs: tf.Tensor,
    pool_size: _Sizes,
    strides: _Sizes | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """Take the average of each window, without padded elements; arguments, shapes and errors as for `MaxPooling`."""
    return _pool("AvgPooling", tf.nn.avg_pool2d, inputs, (pool_size, strides, padding), data_format)


@layer_register(log_shape=True)
@check_arguments
def GlobalAvgPooling(x: tf.Tensor, data_format: str = "channels_last") -> tf.Tensor:  # noqa: N802
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


def _pool(
    kind: str,
    operation: Callable[..., tf.Tensor],
    inputs: tf.Tensor,
    window: tuple[_Sizes, _Sizes | None, str],
    data_format: str,
) -> tf.Tensor:
    pool_size, strides, padding = window
    check_rank(kind, inputs, 4)
    size, rule = check_sizes(kind, "pool_size", pool_size), parse_rule(kind, padding)
    stride = size if strides is None else check_sizes(kind, "strides", strides)

    def make_steps(short_format: str) -> list[Step]:
        return [lambda x, name: operation(x, size, stride, rule, data_format=short_format, name=name)]

    channels_first = is_channels_first(data_format)
    return run_steps(inputs, steps_in_format(make_steps, inputs.dtype.base_dtype, channels_first=channels_first))


@layer_register(log_shape=True)
@check_arguments
def FixedUnPooling(  # noqa: N802
    x: tf.Tensor, shape: _Sizes, unpool_mat: tf.Tensor | ArrayLike | None = None, data_format: str = "channels_last"
) -> tf.Tensor:
    """Multiply each number of a feature map by a fixed matrix: the Kronecker product of the two.

    Args:
        x: the feature map.
        shape: height and width of the matrix, or one number for both.
        unpool_mat: the matrix, an array or a tensor. None for 1 in its upper left corner and 0 elsewhere; then nothing
            is multiplied, and an infinite number stays in its corner.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.

    Shapes:
        [batch, height, width, channels] to [batch, height * matrix height, width * matrix width, channels], or both
        with the channels first.

    Raises:
        ConfigError: The input is not four-dimensional, or the matrix has another shape.
    """
    check_rank("FixedUnPooling", x, 4)
    size = check_sizes("FixedUnPooling", "shape", shape)
    # Height and width become two dimensions each: the place in the input, and the place in the matrix.
    height = 2 if is_channels_first(data_format) else 1
    spread = tf.expand_dims(tf.expand_dims(x, height + 1), height + 3)
    if unpool_mat is None:
        pairs = [[0, 0]] * 6
        pairs[height + 1], pairs[height + 3] = [0, size[0] - 1], [0, size[1] - 1]
        blocks = tf.pad(spread, pairs)
    else:
        matrix = _check_matrix(unpool_mat, size, x.dtype.base_dtype)
        factor_shape = [1] * 6
        factor_shape[height + 1], factor_shape[height + 3] = size
        blocks = spread * tf.reshape(matrix, factor_shape)
    new_shape = sizes_of(x)
    new_shape[height : height + 2] = [new_shape[height] * size[0], new_shape[height + 1] * size[1]]
    outputs = run_steps(blocks, [lambda x, name: tf.reshape(x, new_shape, name=name)])
    outputs.set_shape([size if isinstance(size, int) else None for size in new_shape])
    return outputs


def _check_matrix(unpool_mat: tf.Tensor | ArrayLike, size: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    try:
        matrix: tf.Tensor = unpool_mat if tf.is_tensor(unpool_mat) else tf.constant(unpool_mat, dtype)
    except (TypeError, ValueError) as error:
        raise layer_error("FixedUnPooling", "unpool_mat", unpool_mat, f"a matrix of {dtype.name}") from error
    if matrix.shape.as_list() != list(size):
        raise ConfigError(
            f"{layer_name('FixedUnPooling')} got unpool_mat of shape {matrix.shape}: expected {list(size)}, its shape="
        )
    return matrix
