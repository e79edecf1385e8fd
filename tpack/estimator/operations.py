"""The operation behind what people call an op: a tensor, an operation, or a variable that is being assigned."""

from typing import Any

import tensorflow.compat.v1 as tf


def operation_of(item: Any) -> Any:
    """Return the operation that gives a tensor, or that assigns a variable; an operation is returned as it is.

    What ``variable.assign_add`` returns looks like the variable. As a control dependency it would stand for that, and
    nothing would be assigned.
    """
    return item if isinstance(item, tf.Operation) else item.op
