"""Initial values whose variance depends on the numbers of inputs and outputs of a weight."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.utils.validation import shown

Initializer = Callable[..., tf.Tensor]

# TensorFlow's factor restores the deviation of a normal distribution cut at two deviations.
_CUT = 1.3


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32) -> Initializer:
    """Return an initializer with a variance of 2 / (inputs + outputs).

    Source:
        Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> Initializer:
    """Return an initializer whose variance is a factor divided by the inputs, the outputs, or their mean.

    Args:
        factor: the numerator.
        mode: ``"FAN_IN"``, ``"FAN_OUT"`` or ``"FAN_AVG"``.
        uniform: draw from a uniform distribution, else from a normal one cut at two deviations.
        seed: of the random numbers.
        dtype: of the values.

    Raises:
        WrongTypeError: The mode is unknown, or the dtype is not floating-point.
    """
    if not dtype.is_floating:
        raise WrongTypeError(f"got dtype={shown(dtype)}: expected a floating-point dtype")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise WrongTypeError(f"got mode={shown(mode)}: expected FAN_IN, FAN_OUT or FAN_AVG")

    def initializer(shape: Sequence[int], dtype: tf.DType = dtype, partition_info: Any = None) -> tf.Tensor:
        whole = shape if partition_info is None else partition_info.full_shape
        variance = factor / _fan(mode, list(whole))
        if uniform:
            limit = math.sqrt(3.0 * variance)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(_CUT * variance), dtype, seed=seed)

    return initializer


def _fan(mode: str, shape: list[int]) -> float:
    """Return the divisor of the variance, for a weight with inputs and outputs as its last dimensions."""
    fan_in = float(shape[-2] if len(shape) > 1 else shape[-1]) if shape else 1.0
    fan_out = float(shape[-1]) if shape else 1.0
    positions = math.prod(shape[:-2])
    fans = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}
    return fans[mode] * positions


XAVIER = xavier_initializer()
ZEROS = tf.zeros_initializer()
