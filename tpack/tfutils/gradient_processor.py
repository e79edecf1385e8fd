"""What a gradient processor is: something between the gradients and the optimizer that changes, watches or drops them.

A processor takes a list of (gradient, variable) pairs and returns another. Gradients are dense tensors or
IndexedSlices.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

Grads = list[tuple[Any, Any]]
"""(gradient, variable) pairs."""


class GradientProcessor:
    """Change gradients before they are applied; this one changes nothing.

    Subclasses override ``_process``.
    """

    def process(self, grads: Sequence[tuple[Any, Any]]) -> Grads:
        """Return the (gradient, variable) pairs to use in place of these.

        Operations are made in a name scope called like the class.
        """
        with tf.name_scope(type(self).__name__):
            return list(self._process(list(grads)))

    def _process(self, grads: Grads) -> Grads:
        return grads


def gradient_values(gradient: Any) -> Any:
    """Return the numbers of a gradient: itself, or the values of IndexedSlices."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def map_gradient_values(func: Callable[[Any], Any], gradient: Any) -> Any:
    """Apply a function to the numbers of a gradient; the indices of IndexedSlices stay."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(func(gradient.values), gradient.indices, gradient.dense_shape)
    return func(gradient)
