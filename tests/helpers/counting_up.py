"""A tensor that is one more each time it is run."""

from typing import Any

import tensorflow.compat.v1 as tf


def counted_up(variable: Any, step: Any) -> Any:
    """Return a tensor that adds to a variable when it is run, and is the sum of that moment wherever it is used."""
    with tf.control_dependencies([tf.assign_add(variable, step).op]):
        return variable.read_value()
