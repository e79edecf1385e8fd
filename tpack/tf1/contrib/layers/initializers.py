"""Initial values whose variance depends on how many inputs and outputs a weight has."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.utils.validation import shown

Initializer = Callable[..., tf.Tensor]

# By TensorFlow's factor a normal distribution that is cut at two deviations has again the deviation that is wanted.
_CUT = 1.3


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32) -> Initializer:
    """Return an initializer whose variance is 2 by the sum of inputs and outputs.

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
    """Return an initializer whose variance is a factor by the number of inputs, of outputs, or by their mean.

    Args:
        factor: what is divided.
        mode: ``"FAN_IN"``, ``"FAN_OUT"`` or ``"FAN_AVG"``.
        uniform: a uniform distribution, or a normal one that is cut at two deviations.
        seed: of the random numbers.
        dtype: of the values.

    Raises:
        WrongTypeError: The mode is unknown, or the dtype is not floating-point.
    """
    if not dtype.is_floating:
        raise WrongTypeError(f"an initializer wants a floating-point dtype, got {shown(dtype)}")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise WrongTypeError(f"expected one of the modes FAN_IN, FAN_OUT, FAN_AVG, got {shown(mode)}")

    def initializer(shape: Sequence[int], dtype: tf.DType = dtype, partition_info: Any = None) -> tf.Tensor:
        whole = shape if partition_info is None else partition_info.full_shape
        variance = factor / _fan(mode, list(whole))
        if uniform:
            limit = math.sqrt(3.0 * variance)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(_CUT * variance), dtype, seed=seed)

    return initializer


def _fan(mode: str, shape: list[int]) -> float:
    """Return the number that a variance is divided by, for a weight with inputs and outputs as its last dimensions."""
    fan_in = float(shape[-2] if len(shape) > 1 else shape[-1]) if shape else 1.0
    fan_out = float(shape[-1]) if shape else 1.0
    positions = math.prod(shape[:-2])
    fans = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}
    return fans[mode] * positions


XAVIER = xavier_initializer()
ZEROS = tf.zeros_initializer()
