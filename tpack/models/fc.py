"""A fully connected layer."""

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import Units, check_floating, check_units, layer_name
from tpack.models.registry import WEIGHT_ALIASES, argument_aliases, layer_register
from tpack.models.steps import Activation, Step, activation_steps, run_steps
from tpack.models.variables import Initializer, Regularizer, WeightOptions
from tpack.utils.validation import check_arguments

__all__ = ["FullyConnected"]


@layer_register(log_shape=True)
@argument_aliases(out_dim="units", **WEIGHT_ALIASES)
@check_arguments
def FullyConnected(  # noqa: N802
    inputs: tf.Tensor,
    units: Units,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Initializer | None = None,
    bias_initializer: Initializer | None = None,
    kernel_regularizer: Regularizer | None = None,
    bias_regularizer: Regularizer | None = None,
    activity_regularizer: Regularizer | None = None,
) -> tf.Tensor:
    """Multiply by a matrix and add a bias.

    Args:
        inputs: the features, flattened but for the first dimension. The variables have their dtype.
        units: the number of outputs for each input; a whole float is accepted.
        activation: a function of the result; this and all that follow are as for `Conv2D`.
        use_bias: add a bias.
        kernel_initializer: None for a normal distribution of variance ``2 / fan_in``.
        bias_initializer: None for zeros.
        kernel_regularizer: a function from the kernel to a loss.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.

    Shapes:
        [batch, ...] to [batch, units].

    Creates:
        ``W`` [size of one input, units] and ``b`` [units], attributes of the result's ``variables``.

    Raises:
        ConfigError: The input is not floating-point, a scalar, or of unknown size beyond the first dimension.
    """
    dtype = check_floating("FullyConnected", inputs)
    shape = inputs.shape
    if shape.rank in (None, 0) or None in shape.as_list()[1:]:
        raise ConfigError(
            f"{layer_name('FullyConnected')} got an input of shape {shape} ({inputs.name}): expected known dimensions "
            "after the first; use set_shape or the input signature"
        )
    size = int(np.prod(shape.as_list()[1:], dtype=np.int64))
    units = check_units("FullyConnected", "units", units)
    options = WeightOptions(use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer)
    last_steps = activation_steps(activation, activity_regularizer)
    variables = options.create(dtype, [size, units], units)
    steps: list[Step] = [lambda x, name: tf.matmul(x, variables.W, name=name)]
    if use_bias:
        steps.append(lambda x, name: tf.nn.bias_add(x, variables.b, name=name))
    flat = inputs if inputs.shape.rank == 2 else tf.reshape(inputs, [-1, size])
    return run_steps(flat, [*steps, *last_steps], variables)
