"""The kernel ``W`` and the bias ``b`` that convolutions and fully connected layers have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import layer_name
from tpack.models.variable_holder import VariableHolder


@dataclass(frozen=True)
class WeightOptions:
    """How the two variables are made.

    Args:
        use_bias: whether there is a bias.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``, which keeps the size of
            activations through layers with a ReLU.
        bias_initializer: None for zeros.
        kernel_regularizer: a function of the kernel that returns a loss for the collection REGULARIZATION_LOSSES.
        bias_regularizer: the same for the bias.

    Source:
        He et al., "Delving Deep into Rectifiers", https://arxiv.org/abs/1502.01852
    """

    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = None
    kernel_regularizer: Any = None
    bias_regularizer: Any = None

    def create(self, dtype: Any, kernel_shape: Sequence[int], units: int) -> VariableHolder:
        """Make the variables ``W`` and ``b`` in the current scope.

        Args:
            dtype: of the layer's input. A custom getter may keep the variables in another one and cast.
            kernel_shape: of ``W``.
            units: the size of ``b``.
        """
        initializer = self.kernel_initializer or tf.variance_scaling_initializer(2.0, distribution="untruncated_normal")
        kernel = tf.get_variable("W", kernel_shape, dtype, initializer, self.kernel_regularizer)
        if not self.use_bias:
            return VariableHolder(W=kernel)
        initializer = self.bias_initializer or tf.zeros_initializer()
        return VariableHolder(W=kernel, b=tf.get_variable("b", [units], dtype, initializer, self.bias_regularizer))


def check_units(kind: str, argument: str, units: Any) -> int:
    """Return a number of outputs.

    Args:
        kind: the name of the layer's function, for the message.
        argument: what the layer calls the number.
        units: the number.

    Raises:
        ConfigError: It is not a positive integer.
    """
    # A dimension read from a shape may be a numpy integer.
    if isinstance(units, bool) or not hasattr(units, "__index__") or units.__index__() < 1:
        raise ConfigError(f"{layer_name(kind)} wants a positive number of {argument}, got {units!r}")
    return int(units.__index__())
