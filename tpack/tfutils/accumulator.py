"""Where the gradient of one variable is summed up over several steps: dense gradients, and sparse ones.

Optimizers treat a sparse gradient differently from a dense one with zeros in it: a momentum that is not touched does
not move. The sum of sparse gradients is therefore given as a sparse gradient again, of the rows that were touched.
"""

from typing import Any

import tensorflow.compat.v1 as tf


class DenseAccumulator:
    """Sums dense gradients.

    Args:
        total: a variable of the gradient's shape, zero at first.
    """

    def __init__(self, total: Any) -> None:
        self._total = total

    def add(self, gradient: Any) -> Any:
        """Return the operation that adds a gradient."""
        return self._total.assign_add(gradient, read_value=False)

    def mean(self, count: int) -> Any:
        """Return the sum divided by a number."""
        return self._total.read_value() / count

    def reset(self) -> Any:
        """Return the operation that sets the sum to zero."""
        return self._total.assign(tf.zeros_like(self._total), read_value=False)


class SparseAccumulator:
    """Sums IndexedSlices.

    Args:
        total: a variable of the shape that the slices are of, zero at first.
        touched: a variable of one boolean for each row, False at first.
    """

    def __init__(self, total: Any, touched: Any) -> None:
        self._total = total
        self._touched = touched

    def add(self, gradient: Any) -> Any:
        """Return the operation that adds a gradient."""
        marks = tf.IndexedSlices(tf.ones_like(gradient.indices, tf.bool), gradient.indices)
        added = self._total.scatter_add(gradient)
        return tf.group(added, self._touched.scatter_update(marks))

    def mean(self, count: int) -> Any:
        """Return the sum of the rows that were touched, divided by a number; each row comes once."""
        rows = tf.where(self._touched.read_value())[:, 0]
        values = tf.gather(self._total.read_value(), rows) / count
        return tf.IndexedSlices(values, rows, tf.shape(self._total, out_type=tf.int64))

    def reset(self) -> Any:
        """Return the operation that sets the sum to zero, and no row touched."""
        return tf.group(
            self._total.assign(tf.zeros_like(self._total), read_value=False),
            self._touched.assign(tf.zeros_like(self._touched), read_value=False),
        )
