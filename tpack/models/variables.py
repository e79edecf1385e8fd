"""The variables of a layer: how they are made, and the holder by which the layer's output gives them.

Convolutions and fully connected layers have a kernel ``W`` and a bias ``b``; normalisations end with a factor ``gamma``
and a shift ``beta``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.tower.getters import full_precision

Initializer: TypeAlias = Callable[..., tf.Tensor]
"""What ``tf.get_variable`` calls with a shape and a dtype for the value that a variable begins with."""
Regularizer: TypeAlias = Callable[[tf.Tensor], tf.Tensor | None]
"""Returns the loss of a variable or of a layer's output, a scalar, or None for no loss."""


class VariableHolder:
    """Holds variables as attributes.

    Args:
        **kwargs: the variables by name.

    Example:
        x = Conv2D("conv0", image, 32, 3)
        tf.summary.histogram("conv0", x.variables.W)
    """

    def __init__(self, **kwargs: tf.Variable) -> None:
        self._variables: dict[str, tf.Variable] = {}
        for name, variable in kwargs.items():
            setattr(self, name, variable)

    def __setattr__(self, name: str, variable: tf.Variable) -> None:
        super().__setattr__(name, variable)
        if not name.startswith("_"):
            self._variables[name] = variable

    def __getattr__(self, name: str) -> tf.Variable:
        raise AttributeError(f"there is no variable {name!r} here, only {', '.join(vars(self).get('_variables', ()))}")

    def all(self) -> list[tf.Variable]:
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
    kernel_initializer: Initializer | None = None
    bias_initializer: Initializer | None = None
    kernel_regularizer: Regularizer | None = None
    bias_regularizer: Regularizer | None = None

    def create(self, dtype: tf.DType, kernel_shape: Sequence[int], units: int) -> VariableHolder:
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


@dataclass(frozen=True)
class AffineOptions:
    """Which of the two variables that end a normalisation there are, and how they begin.

    Args:
        center: whether there is ``beta``, which is added.
        scale: whether there is ``gamma``, which is multiplied with.
        beta_initializer: None for zeros.
        gamma_initializer: None for ones.
    """

    center: bool = True
    scale: bool = True
    beta_initializer: Initializer | None = None
    gamma_initializer: Initializer | None = None

    def create(self, count: int, dtype: tf.DType) -> dict[str, tf.Variable]:
        """Make ``gamma`` and ``beta`` in the current scope and return those that there are, by these names.

        Args:
            count: how many channels.
            dtype: of the variables, whatever the model computes in.
        """
        variables: dict[str, tf.Variable] = {}
        with full_precision():
            if self.scale:
                initializer = self.gamma_initializer or tf.ones_initializer()
                variables["gamma"] = tf.get_variable("gamma", [count], dtype, initializer)
            if self.center:
                initializer = self.beta_initializer or tf.zeros_initializer()
                variables["beta"] = tf.get_variable("beta", [count], dtype, initializer)
        return variables
