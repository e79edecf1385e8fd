"""In which type numbers are added.

A sum of 16-bit numbers that is rounded to 16 bits after each addition soon stands still: 2048 + 1 is 2048 in float16.
Such numbers are added in float32 and the sum is rounded once.
"""

from typing import Any

import tensorflow.compat.v1 as tf

_NARROW = ("float16", "bfloat16")


def widened(tensor: Any) -> Any:
    """Return ``tensor`` in the type in which it is to be added, on the current device: float32 for 16-bit floats."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.base_dtype.name in _NARROW else tensor
