"""The matrix and bias that many cells of ``tf.contrib.rnn`` multiply with, and normalisation of what comes of it."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError

_EPSILON = 1e-12
_EPSILON_OF_HALF = 1e-3


def linear(
    args: tf.Tensor | Sequence[tf.Tensor],
    size: int,
    bias: bool = True,
    *,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> tf.Tensor:
    """Multiply what stands side by side with a matrix, ``kernel`` of the current scope, and add ``bias``.

    Args:
        args: one or several tensors of [batch, depth].
        size: the depth of the result.
        bias: whether to add one.
        bias_initializer: of the bias; the default is zeros.
        kernel_initializer: of the matrix; the default is that of the scope.

    Raises:
        ConfigError: Nothing came, or something that is no matrix of a known depth.
    """
    tensors: list[Any] = list(args) if isinstance(args, (list, tuple)) else [args]
    if not tensors or any(tensor.shape.rank != 2 or tensor.shape.as_list()[1] is None for tensor in tensors):
        raise ConfigError(f"linear got {[str(tensor.shape) for tensor in tensors]}: expected matrices of known depths")
    joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1)
    kernel = tf.get_variable("kernel", [joined.shape.as_list()[1], size], joined.dtype, kernel_initializer)
    product = tf.matmul(joined, kernel)
    if not bias:
        return product
    initializer = tf.zeros_initializer() if bias_initializer is None else bias_initializer
    return tf.nn.bias_add(product, tf.get_variable("bias", [size], joined.dtype, initializer))


def normalised(x: tf.Tensor, name: str, gain: float, shift: float) -> tf.Tensor:
    """Return each row with a mean of zero and a variance of one, times ``NAME/gamma`` plus ``NAME/beta``.

    Args:
        x: [batch, depth].
        name: the scope of the variables.
        gain: what gamma begins with.
        shift: what beta begins with.
    """
    with tf.variable_scope(name, reuse=tf.get_variable_scope().reuse):
        shape = x.shape[-1:]
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.constant_initializer(gain))
        beta = tf.get_variable("beta", shape, x.dtype, tf.constant_initializer(shift))
    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    epsilon = _EPSILON_OF_HALF if x.dtype == tf.float16 else _EPSILON
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
