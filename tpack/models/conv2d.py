"""Two-dimensional convolution, and its gradient as a layer, with kernels for the device of the layer.

It is one operation except on basic CPU kernels (see ``tpack.models.data_format``). There, groups are convolved one by
one, and dilation rearranges space to batch or, with a stride, spreads the kernel with zeros. Padding given in numbers
pads the input first: on no CPU have convolutions with explicit padding gradients in all cases
(tensorflow/tensorflow#51868), and they are not faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tensorflow.compat.v1 as tf

from tpack.models.arguments import (
    Padding,
    PaddingLike,
    Units,
    check_floating,
    check_rank,
    check_sizes,
    check_units,
    layer_error,
    parse_padding,
    parse_rule,
    static_channels,
)
from tpack.models.data_format import has_basic_kernels, is_channels_first, pad, sizes_of, steps_in_format
from tpack.models.registry import WEIGHT_ALIASES, argument_aliases, layer_register, register_alias
from tpack.models.steps import Activation, activation_steps, run_steps, with_bias
from tpack.models.variables import Initializer, Regularizer, WeightOptions
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__all__ = ["Conv2D", "Conv2DTranspose", "Deconv2D"]

__getattr__ = on_unknown_name(__name__)


@layer_register(log_shape=True)
@argument_aliases(out_channel="filters", kernel_shape="kernel_size", stride="strides", **WEIGHT_ALIASES)
@check_arguments
def Conv2D(  # noqa: N802
    inputs: tf.Tensor,
    filters: Units,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: PaddingLike = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Initializer | None = None,
    bias_initializer: Initializer | None = None,
    kernel_regularizer: Regularizer | None = None,
    bias_regularizer: Regularizer | None = None,
    activity_regularizer: Regularizer | None = None,
    split: int = 1,
) -> tf.Tensor:
    """Convolve a feature map.

    Args:
        inputs: the feature map. The variables have its dtype.
        filters: the number of output channels; a whole float is accepted.
        kernel_size: height and width, or one number for both; so are ``strides`` and ``dilation_rate``.
        strides: the distance of the outputs in the input.
        padding: ``"same"`` or ``"valid"`` in any case, or numbers: see ``tpack.models.arguments.parse_padding``.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.
        dilation_rate: the distance of the kernel's elements in the input.
        activation: a function of the result, such as ``tf.nn.relu``.
        use_bias: add a bias.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``.
        bias_initializer: None for zeros.
        kernel_regularizer: a function from the kernel to a loss for the collection REGULARIZATION_LOSSES.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.
        split: the number of groups of channels and filters; a filter sees its own group only.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.

    Creates:
        ``W`` [height, width, channels / split, filters] and ``b`` [filters], attributes of the result's ``variables``.

    Raises:
        ConfigError: The input is not four-dimensional, not floating-point, or of an unknown number of channels; or
            ``split`` does not divide channels and filters.
    """
    check_rank("Conv2D", inputs, 4)
    dtype = check_floating("Conv2D", inputs)
    channels = static_channels("Conv2D", inputs, data_format)
    filters = check_units("Conv2D", "filters", filters)
    channels_first = is_channels_first(data_format)
    geometry = Geometry(
        strides=check_sizes("Conv2D", "strides", strides),
        dilations=check_sizes("Conv2D", "dilation_rate", dilation_rate),
        padding=parse_padding("Conv2D", padding, channels_first=channels_first),
        groups=split,
    )
    if split < 1 or channels % split or filters % split:
        expected = f"a number that divides {channels} channels and {filters} filters"
        raise layer_error("Conv2D", "split", split, expected)
    kernel_shape = [*check_sizes("Conv2D", "kernel_size", kernel_size), channels // geometry.groups, filters]
    options = WeightOptions(use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer)
    last_steps = activation_steps(activation, activity_regularizer)
    variables = options.create(dtype, kernel_shape, filters)

    def operation(x: tf.Tensor, short_format: str, name: str | None) -> tf.Tensor:
        return convolve(x, variables.W, geometry, short_format, name)

    steps = steps_in_format(with_bias(operation, variables), dtype, channels_first=channels_first)
    return run_steps(inputs, [*steps, *last_steps], variables)


@dataclass(frozen=True)
class Geometry:
    """Everything that defines a convolution besides its kernel."""

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: Padding = "SAME"
    groups: int = 1


def convolve(
    x: tf.Tensor, kernel: tf.Tensor, geometry: Geometry, data_format: str, name: str | None = None
) -> tf.Tensor:
    """Convolve a feature map, by operations that run and have gradients on the current device.

    Args:
        x: the feature map.
        kernel: [height, width, channels / groups, filters].
        geometry: strides, dilations, padding and groups.
        data_format: ``"NHWC"`` or ``"NCHW"``; on basic CPU kernels only the first.
        name: the name of the resulting operation.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
    """
    padding = geometry.padding
    if not isinstance(padding, str):
        x, geometry = pad(x, padding, data_format), replace(geometry, padding="VALID")
    is_plain = geometry.groups == 1 and geometry.dilations == (1, 1)
    if not is_plain and has_basic_kernels(x.dtype.base_dtype):
        return _convolve_groups(x, kernel, geometry, name)
    return tf.nn.conv2d(
        x,
        kernel,
        strides=_in_four_dimensions(geometry.strides, data_format),
        dilations=_in_four_dimensions(geometry.dilations, data_format),
        padding=geometry.padding,
        data_format=data_format,
        name=name,
    )


def _convolve_groups(x: tf.Tensor, kernel: tf.Tensor, geometry: Geometry, name: str | None) -> tf.Tensor:
    """Convolve in ``"NHWC"`` with basic kernels."""
    if geometry.groups == 1:
        return _convolve_dilated(x, kernel, geometry, name)
    parts = zip(tf.split(x, geometry.groups, axis=3), tf.split(kernel, geometry.groups, axis=3), strict=True)
    return tf.concat([_convolve_dilated(part, weights, geometry) for part, weights in parts], axis=3, name=name)


def _convolve_dilated(x: tf.Tensor, kernel: tf.Tensor, geometry: Geometry, name: str | None = None) -> tf.Tensor:
    if geometry.strides == (1, 1):
        return tf.nn.convolution(x, kernel, geometry.padding, dilation_rate=geometry.dilations, name=name)
    strides = _in_four_dimensions(geometry.strides, "NHWC")
    return tf.nn.conv2d(x, _spread(kernel, geometry.dilations), strides=strides, padding=geometry.padding, name=name)


def _spread(kernel: tf.Tensor, dilations: tuple[int, int]) -> tf.Tensor:
    """Return a kernel with zeros between its elements, the dilated kernel as a plain one."""
    if dilations == (1, 1):
        return kernel
    (down, right), (height, width, channels, filters) = dilations, kernel.shape.as_list()
    kernel = tf.reshape(kernel, [height, 1, width, 1, channels, filters])
    kernel = tf.pad(kernel, [[0, 0], [0, down - 1], [0, 0], [0, right - 1], [0, 0], [0, 0]])
    kernel = tf.reshape(kernel, [height * down, width * right, channels, filters])
    return kernel[: (height - 1) * down + 1, : (width - 1) * right + 1]


def _in_four_dimensions(sizes: tuple[int, int], data_format: str) -> list[int]:
    return [1, 1, *sizes] if data_format == "NCHW" else [1, *sizes, 1]


@layer_register(log_shape=True)
@argument_aliases(out_channel="filters", kernel_shape="kernel_size", stride="strides", **WEIGHT_ALIASES)
@check_arguments
def Conv2DTranspose(  # noqa: N802
    inputs: tf.Tensor,
    filters: Units,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Initializer | None = None,
    bias_initializer: Initializer | None = None,
    kernel_regularizer: Regularizer | None = None,
    bias_regularizer: Regularizer | None = None,
    activity_regularizer: Regularizer | None = None,
) -> tf.Tensor:
    """Enlarge a feature map by a transposed convolution.

    Args:
        inputs: the feature map. The variables have its dtype.
        filters: the number of output channels; a whole float is accepted.
        kernel_size: height and width, or one number for both; so are ``strides``.
        strides: the distance of the inputs in the output.
        padding: ``"same"`` or ``"valid"`` in any case, of the convolution that this is the gradient of.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.
        activation: a function of the result; this and all that follow are as for `Conv2D`.
        use_bias: add a bias.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``.
        bias_initializer: None for zeros.
        kernel_regularizer: a function from the kernel to a loss.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
        The new height is ``height * stride``, plus ``max(kernel - stride, 0)`` with padding ``"valid"``; so is the new
        width.

    Creates:
        ``W`` [height, width, filters, channels] and ``b`` [filters], attributes of the result's ``variables``.

    Raises:
        ConfigError: The input is not four-dimensional, not floating-point, or of an unknown number of channels.
    """
    check_rank("Conv2DTranspose", inputs, 4)
    dtype = check_floating("Conv2DTranspose", inputs)
    channels = static_channels("Conv2DTranspose", inputs, data_format)
    filters = check_units("Conv2DTranspose", "filters", filters)
    rule, stride = parse_rule("Conv2DTranspose", padding), check_sizes("Conv2DTranspose", "strides", strides)
    options = WeightOptions(use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer)
    last_steps = activation_steps(activation, activity_regularizer)
    kernel_shape = [*check_sizes("Conv2DTranspose", "kernel_size", kernel_size), filters, channels]
    variables = options.create(dtype, kernel_shape, filters)

    def operation(x: tf.Tensor, short_format: str, name: str | None) -> tf.Tensor:
        shape = _output_shape(x, variables.W, stride, rule, short_format)
        return tf.nn.conv2d_transpose(x, variables.W, shape, stride, rule, data_format=short_format, name=name)

    steps = steps_in_format(with_bias(operation, variables), dtype, channels_first=is_channels_first(data_format))
    return run_steps(inputs, [*steps, *last_steps], variables)


Deconv2D = register_alias("Deconv2D", Conv2DTranspose)


def _output_shape(
    x: tf.Tensor, kernel: tf.Tensor, stride: tuple[int, int], rule: str, data_format: str
) -> list[int | tf.Tensor]:
    """Return the shape of the output: numbers where known, else tensors."""
    shape = sizes_of(x)
    kernel_height, kernel_width, filters, _ = kernel.shape.as_list()
    height = 2 if data_format == "NCHW" else 1
    for axis, size, step in ((height, kernel_height, stride[0]), (height + 1, kernel_width, stride[1])):
        shape[axis] = shape[axis] * step + (max(size - step, 0) if rule == "VALID" else 0)
    shape[1 if data_format == "NCHW" else 3] = filters
    return shape
