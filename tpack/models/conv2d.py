"""Two-dimensional convolution."""

from collections.abc import Callable, Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.models.aliases import WEIGHT_ALIASES, argument_aliases
from tpack.models.convolution import Geometry, convolve
from tpack.models.cpu_kernels import steps_in_format
from tpack.models.data_format import (
    check_floating,
    check_rank,
    check_sizes,
    is_channels_first,
    layer_name,
    static_channels,
)
from tpack.models.padding import parse_padding
from tpack.models.registry import layer_register
from tpack.models.steps import activation_steps, run_steps, with_bias
from tpack.models.weights import WeightOptions, check_units

__all__ = ["Conv2D"]


@layer_register(log_shape=True)
@argument_aliases(out_channel="filters", kernel_shape="kernel_size", stride="strides", **WEIGHT_ALIASES)
def Conv2D(  # noqa: N802
    inputs: Any,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: Any = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Callable[..., Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    split: int = 1,
) -> Any:
    """Convolve a feature map.

    Args:
        inputs: the feature map. The variables have its dtype.
        filters: how many channels come out.
        kernel_size: height and width, or one number for both; so are ``strides`` and ``dilation_rate``.
        strides: how far apart the outputs are in the input.
        padding: ``"same"`` or ``"valid"`` in any case, or numbers: see ``tpack.models.padding.parse_padding``.
        data_format: ``"channels_last"`` or ``"channels_first"``, or TensorFlow's names of them.
        dilation_rate: how far apart the kernel's elements are in the input.
        activation: a function of the result, such as ``tf.nn.relu``.
        use_bias: whether a bias is added.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``.
        bias_initializer: None for zeros.
        kernel_regularizer: a function of the kernel that returns a loss for the collection REGULARIZATION_LOSSES.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.
        split: into how many groups the channels and the filters are divided; a filter sees its own group only.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.

    Creates:
        ``W`` [height, width, channels / split, filters] and ``b`` [filters], which the result has as attributes of its
        ``variables``.

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
        groups=_check_groups(split, channels, filters),
    )
    kernel_shape = [*check_sizes("Conv2D", "kernel_size", kernel_size), channels // geometry.groups, filters]
    options = WeightOptions(use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer)
    last_steps = activation_steps(activation, activity_regularizer)
    variables = options.create(dtype, kernel_shape, filters)

    def operation(x: Any, short_format: str, name: str | None) -> Any:
        return convolve(x, variables.W, geometry, short_format, name)

    steps = steps_in_format(with_bias(operation, variables), dtype, channels_first=channels_first)
    outputs = run_steps(inputs, [*steps, *last_steps])
    outputs.variables = variables
    return outputs


def _check_groups(split: int, channels: int, filters: int) -> int:
    if split < 1 or channels % split or filters % split:
        raise ConfigError(
            f"{layer_name('Conv2D')} wants a split that divides {channels} channels and {filters} filters, got {split}"
        )
    return split
