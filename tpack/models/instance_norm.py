"""Instance normalisation: each channel of each input by itself."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.channels import AffineOptions, channels_of, normalize, wide_dtype
from tpack.models.data_format import CHANNELS_LAST, spatial_axes
from tpack.models.registry import layer_register
from tpack.models.variable_holder import VariableHolder

__all__ = ["InstanceNorm"]


@layer_register()
def InstanceNorm(  # noqa: N802
    x: Any,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = CHANNELS_LAST,
    use_affine: bool | None = None,
) -> Any:
    """Normalise each channel of each input by its mean and variance over height and width.

    Args:
        x: a feature map.
        epsilon: added to the variance.
        center: whether ``beta`` is added.
        scale: whether ``gamma`` is multiplied with.
        gamma_initializer: None for ones.
        data_format: ``"channels_last"`` or ``"channels_first"``.
        use_affine: an older way to say ``center`` and ``scale`` at once.

    Shapes:
        As the input.

    Creates:
        ``gamma`` and ``beta`` [C], in float32 for inputs of 16 bits. The output has them as attributes of its
        ``variables``.

    Raises:
        ConfigError: The input is not floating-point, has another rank or an unknown number of channels.

    Source:
        Ulyanov et al., "Instance Normalization", https://arxiv.org/abs/1607.08022
    """
    channels = channels_of("InstanceNorm", x, data_format, 4)
    dtype = wide_dtype(x)
    if use_affine is not None:
        center = scale = use_affine
    affine = AffineOptions(center, scale, gamma_initializer=gamma_initializer).create(channels.count, dtype)
    mean, variance = tf.nn.moments(tf.cast(x, dtype), spatial_axes(data_format), keep_dims=True)
    outputs = normalize(x, mean, variance, channels.spread_all(affine), epsilon)
    outputs.variables = VariableHolder(**affine)
    return outputs
