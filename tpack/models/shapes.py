"""Layers that only rearrange."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.registry import layer_register

__all__ = ["ConcatWith"]


@layer_register(use_scope=None)
def ConcatWith(x: Any, tensor: Any | Sequence[Any], dim: int) -> Any:  # noqa: N802
    """Join a tensor and others along a dimension, as a step of a `LinearWrap`.

    Args:
        x: the first tensor.
        tensor: the tensor that follows it, or a list of them.
        dim: the dimension.

    Shapes:
        The inputs differ in the size of ``dim`` only; the output has the sum of them.
    """
    others = list(tensor) if isinstance(tensor, list | tuple) else [tensor]
    return tf.concat([x, *others], dim)
