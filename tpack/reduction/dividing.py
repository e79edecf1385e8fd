"""Divide a sum by the number of towers.

It comes after the sum and runs in the sum's own buffer, so it needs no memory. TensorFlow's optimizer may make it a
multiplication by 1/K, which differs by one rounding when K is no power of two.
"""

from typing import Any

import tensorflow.compat.v1 as tf


def divide(total: Any, divisor: int) -> Any:
    """Divide a tensor by a whole number on the current device; by 1, return it as it is."""
    return total if divisor == 1 else tf.realdiv(total, tf.constant(divisor, total.dtype.base_dtype))
