"""Activations that have variables or change the shape."""

import tensorflow.compat.v1 as tf

from tpack.models.arguments import check_rank, layer_error, static_channels
from tpack.models.batch_norm import BatchNorm
from tpack.models.data_format import sizes_of
from tpack.models.registry import layer_register
from tpack.models.variables import VariableHolder
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)

__all__ = ["BNReLU", "Maxout", "PReLU"]


@layer_register(use_scope=None)
@check_arguments
def PReLU(x: tf.Tensor, init: float = 0.001, name: str | None = None) -> tf.Tensor:  # noqa: N802
    """Multiply negative elements by a learned factor, one for all channels.

    Args:
        x: any tensor. The variable has its dtype.
        init: the initial factor.
        name: the name of the result.

    Shapes:
        As the input.

    Creates:
        ``alpha``, a scalar, an attribute of the result's ``variables``.

    Source:
        He et al., "Delving Deep into Rectifiers", https://arxiv.org/abs/1502.01852
    """
    alpha = tf.get_variable("alpha", [], x.dtype.base_dtype, tf.constant_initializer(init))
    outputs = tf.subtract(tf.nn.relu(x), alpha * tf.nn.relu(-x), name=name)
    outputs.variables = VariableHolder(alpha=alpha)
    return outputs


@layer_register(use_scope=None)
@check_arguments
def Maxout(x: tf.Tensor, num_unit: int) -> tf.Tensor:  # noqa: N802
    """Take the maximum of each ``num_unit`` neighbouring channels.

    Args:
        x: features, or a feature map with the channels last.
        num_unit: the number of channels that become one, a divisor of their number.

    Shapes:
        [..., channels] to [..., channels / num_unit], with two or four dimensions.

    Raises:
        ConfigError: The input has another rank, or a number of channels that is unknown or not divisible.

    Source:
        Goodfellow et al., "Maxout Networks", https://arxiv.org/abs/1302.4389
    """
    rank = check_rank("Maxout", x, 2, 4)
    channels = static_channels("Maxout", x)
    if num_unit < 1 or channels % num_unit:
        raise layer_error("Maxout", "num_unit", num_unit, f"a divisor of {channels} channels")
    groups = tf.reshape(x, [*sizes_of(x)[:-1], channels // num_unit, num_unit])
    return tf.reduce_max(groups, rank, name="output")


@layer_register(use_scope=None)
@check_arguments
def BNReLU(x: tf.Tensor, name: str | None = None) -> tf.Tensor:  # noqa: N802
    """Normalise by the batch and apply a ReLU; as an activation, for a convolution without bias.

    Args:
        x: a feature map or features. Options of `BatchNorm` come from its ``argscope``.
        name: the name of the result.

    Creates:
        The variables of a `BatchNorm` called ``bn``.

    Example:
        with argscope(Conv2D, activation=BNReLU, use_bias=False):
            x = Conv2D("conv0", image, 64, 7, strides=2)
    """
    return tf.nn.relu(BatchNorm("bn", x), name=name)
