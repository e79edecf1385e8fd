"""The kernel ``W`` and the bias ``b`` that convolutions and fully connected layers have.

A layer's variables by the names they have in it, as an attribute of the layer's output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import layer_name


class VariableHolder:
    """Holds variables as attributes.

    Args:
        **kwargs: the variables by name.

    Example:
        x = Conv2D("conv0", image, 32, 3)
        tf.summary.histogram("conv0", x.variables.W)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._variables: dict[str, Any] = {}
        for name, variable in kwargs.items():
            setattr(self, name, variable)

    def __setattr__(self, name: str, variable: Any) -> None:
        super().__setattr__(name, variable)
        if not name.startswith("_"):
            self._variables[name] = variable

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no variable {name!r} here, only {', '.join(vars(self).get('_variables', ()))}")

    def all(self) -> list[Any]:
        """Return the variables in the order in which they were given."""
        return list(self._variables.values())

    def __repr__(self) -> str:
        return f"VariableHolder({', '.join(self._variables)})"


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
