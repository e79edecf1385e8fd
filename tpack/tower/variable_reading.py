"""The values of variables for those who ask for a tensor by a variable's name.

The graph knows a resource variable's handle by the variable's name, and a handle is of no use to whoever asked.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tower.keys import VARIABLE_KEYS


def value_if_variable(tensor: Any) -> Any:
    """Return the value of the variable whose handle a tensor is; any other tensor itself.

    Args:
        tensor: its graph must not be finalized if it is a handle.
    """
    if tensor.dtype != tf.resource:
        return tensor
    variables = (variable for key in VARIABLE_KEYS for variable in tensor.graph.get_collection(key))
    return next((variable.read_value() for variable in variables if variable.op is tensor.op), tensor)
