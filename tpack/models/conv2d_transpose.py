"""Two-dimensional transposed convolution: the gradient of a convolution, as a layer."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.models.arguments import (
    Units,
    check_floating,
    check_rank,
    check_sizes,
    check_units,
    parse_rule,
    static_channels,
)
from tpack.models.data_format import is_channels_first, sizes_of, steps_in_format
from tpack.models.registry import WEIGHT_ALIASES, argument_aliases, layer_register, register_alias
from tpack.models.steps import Activation, activation_steps, run_steps, with_bias
from tpack.models.variables import Initializer, Regularizer, WeightOptions
from tpack.utils.validation import check_arguments

__all__ = ["Conv2DTranspose", "Deconv2D"]


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
