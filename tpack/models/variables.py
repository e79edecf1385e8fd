"""The variables of a layer, and the holder through which its output offers them.

Convolutions and fully connected layers have a kernel ``W`` and a bias ``b``; normalisations end with a factor ``gamma``
and a shift ``beta``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.tower.getters import custom_getter_scope, full_precision

_RENAMED = {"kernel": "W", "bias": "b"}

Initializer: TypeAlias = Callable[..., tf.Tensor]
"""A function of a shape and a dtype that ``tf.get_variable`` calls for the initial value of a variable."""
Regularizer: TypeAlias = Callable[[tf.Tensor], tf.Tensor | None]
"""A function from a variable or a layer's output to a scalar loss, or None for no loss."""


class VariableHolder:
    """Variables as attributes of one object.

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


@contextmanager
def rename_tflayer_get_variable() -> Iterator[None]:
    """Rename the variables that ``tf.layers`` asks for in this block: ``conv/kernel`` becomes ``conv/W``.

    This applies to every ``tf.get_variable`` in the block. ``tf.layers`` itself works with ``tf_keras`` only, that is
    with the environment variable ``TF_USE_LEGACY_KERAS=1``.

    Example:
        with rename_tflayer_get_variable():
            x = tf.layers.conv2d(image, 32, 3, name="conv0")
    """

    def renaming(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        return getter(f"{scope}{slash}{_RENAMED.get(last, last)}", *args, **kwargs)

    with custom_getter_scope(renaming):
        yield


@dataclass(frozen=True)
class WeightOptions:
    """Options of a layer's kernel and bias.

    Args:
        use_bias: add a bias.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``, which keeps the size of
            activations through layers with a ReLU.
        bias_initializer: None for zeros.
        kernel_regularizer: a function from the kernel to a loss for the collection REGULARIZATION_LOSSES.
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
            dtype: the dtype of the layer's input. A custom getter may keep the variables in another one and cast.
            kernel_shape: the shape of ``W``.
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
    """Options of the two variables that end a normalisation.

    Args:
        center: add ``beta``.
        scale: multiply by ``gamma``.
        beta_initializer: None for zeros.
        gamma_initializer: None for ones.
    """

    center: bool = True
    scale: bool = True
    beta_initializer: Initializer | None = None
    gamma_initializer: Initializer | None = None

    def create(self, count: int, dtype: tf.DType) -> dict[str, tf.Variable]:
        """Make ``gamma`` and ``beta`` [count] of a dtype in the current scope, and return those that exist, by name."""
        initializers = {}
        if self.scale:
            initializers["gamma"] = self.gamma_initializer or tf.ones_initializer()
        if self.center:
            initializers["beta"] = self.beta_initializer or tf.zeros_initializer()
        with full_precision():
            return {name: tf.get_variable(name, [count], dtype, initial) for name, initial in initializers.items()}
