"""Layer normalisation: each input by itself, over all its features."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.channels import AffineOptions, channels_of, normalize, wide_dtype
from tpack.models.data_format import CHANNELS_LAST
from tpack.models.registry import layer_register
from tpack.models.variable_holder import VariableHolder

__all__ = ["LayerNorm"]


@layer_register()
def LayerNorm(  # noqa: N802
    x: Any,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Any = None,
    data_format: str = CHANNELS_LAST,
) -> Any:
    """Normalise each input by its own mean and variance, in training and in prediction alike.

    Args:
        x: features of two dimensions, or a feature map of four.
        epsilon: added to the variance.
        center: whether ``beta`` is added.
        scale: whether ``gamma`` is multiplied with.
        gamma_initializer: None for ones.
        data_format: ``"channels_last"`` or ``"channels_first"``, for inputs of four dimensions.

    Shapes:
        As the input.

    Creates:
        ``gamma`` and ``beta`` [C], in float32 for inputs of 16 bits. The output has them as attributes of its
        ``variables``.

    Raises:
        ConfigError: The input is not floating-point, has another rank or an unknown number of channels.

    Source:
        Ba et al., "Layer Normalization", https://arxiv.org/abs/1607.06450
    """
    channels = channels_of("LayerNorm", x, data_format, 2, 4)
    dtype = wide_dtype(x)
    affine = AffineOptions(center, scale, gamma_initializer=gamma_initializer).create(channels.count, dtype)
    mean, variance = tf.nn.moments(tf.cast(x, dtype), list(range(1, channels.rank)), keep_dims=True)
    outputs = normalize(x, mean, variance, channels.spread_all(affine), epsilon)
    outputs.variables = VariableHolder(**affine)
    return outputs
