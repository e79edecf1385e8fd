"""Normalisation of each input by itself: in groups of its channels, each channel alone, or over all its features.

None depends on the batch, so training and prediction compute the same.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.models.arguments import layer_error
from tpack.models.channels import Channels, channels_of, normalize, wide_dtype
from tpack.models.data_format import CHANNELS_LAST, spatial_axes
from tpack.models.registry import layer_register
from tpack.models.steps import OUTPUT
from tpack.models.variables import AffineOptions, Initializer, VariableHolder
from tpack.utils.validation import check_arguments

__all__ = ["GroupNorm", "InstanceNorm", "LayerNorm"]


@layer_register()
@check_arguments
def GroupNorm(  # noqa: N802
    x: tf.Tensor,
    group: int = 32,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Initializer | None = None,
    data_format: str = CHANNELS_LAST,
) -> tf.Tensor:
    """Normalise each input by mean and variance over groups of neighbouring channels, and over height and width.

    It suits batches too small for `BatchNorm`. One group is `LayerNorm`, a group for each channel is `InstanceNorm`.

    Args:
        x: features of two dimensions, or a feature map of four.
        group: the number of groups, a divisor of the number of channels.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        gamma_initializer: None for ones.
        data_format: ``"channels_last"`` or ``"channels_first"``, for inputs of four dimensions.

    Shapes:
        As the input.

    Creates:
        ``gamma`` and ``beta`` [C], in float32 for inputs of 16 bits, as attributes of the output's ``variables``.

    Raises:
        ConfigError: The input is not floating-point, has another rank or an unknown number of channels, or ``group``
            does not divide it.

    Source:
        Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494; ``group`` is named as in tensorpack's
        examples.
    """
    channels = channels_of("GroupNorm", x, data_format, 2, 4)
    if group < 1 or channels.count % group:
        raise layer_error("GroupNorm", "group", group, f"a divisor of {channels.count} channels")
    dtype = wide_dtype(x)
    affine = AffineOptions(center, scale, gamma_initializer=gamma_initializer).create(channels.count, dtype)
    grouped = _split_channels(tf.cast(x, dtype), channels, group)
    axes = [axis for axis in range(1, channels.rank + 1) if axis != channels.axis]
    mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
    shape = [1] * channels.axis + [group, -1] + [1] * (channels.rank - 1 - channels.axis)
    in_groups = {name: tf.reshape(vector, shape) for name, vector in affine.items()}
    normalized = normalize(grouped, mean, variance, in_groups, epsilon, name=None)
    outputs = tf.reshape(tf.cast(normalized, x.dtype), tf.shape(x), name=OUTPUT)
    outputs.set_shape(x.shape)
    outputs.variables = VariableHolder(**affine)
    return outputs


@layer_register()
@check_arguments
def InstanceNorm(  # noqa: N802
    x: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Initializer | None = None,
    data_format: str = CHANNELS_LAST,
    use_affine: bool | None = None,
) -> tf.Tensor:
    """Normalise each channel of each input by its mean and variance over height and width.

    The input is a feature map. ``use_affine``, an older argument, sets ``center`` and ``scale`` at once. Other
    arguments, shapes, variables and errors are as for `GroupNorm`.

    Source:
        Ulyanov et al., "Instance Normalization", https://arxiv.org/abs/1607.08022
    """
    channels = channels_of("InstanceNorm", x, data_format, 4)
    if use_affine is not None:
        center = scale = use_affine
    options = AffineOptions(center, scale, gamma_initializer=gamma_initializer)
    return _normalize_over(x, spatial_axes(data_format), channels, options, epsilon)


@layer_register()
@check_arguments
def LayerNorm(  # noqa: N802
    x: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Initializer | None = None,
    data_format: str = CHANNELS_LAST,
) -> tf.Tensor:
    """Normalise each input by its own mean and variance, in training and prediction.

    Arguments, shapes, variables and errors are as for `GroupNorm`.

    Source:
        Ba et al., "Layer Normalization", https://arxiv.org/abs/1607.06450
    """
    channels = channels_of("LayerNorm", x, data_format, 2, 4)
    options = AffineOptions(center, scale, gamma_initializer=gamma_initializer)
    return _normalize_over(x, list(range(1, channels.rank)), channels, options, epsilon)


def _normalize_over(
    x: tf.Tensor, axes: Sequence[int], channels: Channels, options: AffineOptions, epsilon: float
) -> tf.Tensor:
    """Normalise each input by mean and variance over some of its axes, and make the layer's variables."""
    dtype = wide_dtype(x)
    affine = options.create(channels.count, dtype)
    mean, variance = tf.nn.moments(tf.cast(x, dtype), axes, keep_dims=True)
    outputs = normalize(x, mean, variance, channels.spread_all(affine), epsilon)
    outputs.variables = VariableHolder(**affine)
    return outputs


def _split_channels(wide: tf.Tensor, channels: Channels, group: int) -> tf.Tensor:
    """Split the axis of the channels into two: the group, and the channel in it."""
    sizes = tf.unstack(tf.shape(wide))
    known = wide.shape.as_list()
    at, split = channels.axis, [group, channels.count // group]
    grouped = tf.reshape(wide, [*sizes[:at], *split, *sizes[at + 1 :]])
    grouped.set_shape([*known[:at], *split, *known[at + 1 :]])
    return grouped
