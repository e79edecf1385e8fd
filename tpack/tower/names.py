"""Names of towers, operations and tensors.

A tensor is called ``op:index``; scripts write both ``"cost"`` and ``"cost:0"`` and mean the same tensor. The graph
knows a resource variable's handle by the variable's name, and a handle is of no use to whoever asked for a value.
"""

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.collections import VARIABLE_KEYS


def tower_name(index: int) -> str:
    """Return the name of tower ``index``: ``tower0``, ``tower1``, ..."""
    return f"tower{index}"


def op_and_tensor_name(name: str) -> tuple[str, str]:
    """Split what a script calls a tensor into the names of its operation and of the tensor.

    Args:
        name: ``"scope/op"``, which means output 0, or ``"scope/op:3"``.

    Returns:
        ``("scope/op", "scope/op:0")`` or ``("scope/op", "scope/op:3")``.

    Raises:
        ConfigError: The name is empty, or what follows the colon is not an output index.
    """
    op, colon, index = name.partition(":")
    if not op or (colon and not index.isdigit()):
        raise ConfigError(f"{name!r} is no name of a tensor: wanted 'op_name' or 'op_name:output_index'")
    return op, f"{op}:{index or 0}"


def join_scope(scope: str, name: str) -> str:
    """Join a scope, which may be empty, and a name with one slash."""
    return f"{scope}/{name}" if scope else name


def value_if_variable(tensor: tf.Tensor) -> tf.Tensor:
    """Return the value of the variable whose handle a tensor is; any other tensor itself.

    Args:
        tensor: its graph must not be finalized if it is a handle.
    """
    if tensor.dtype != tf.resource:
        return tensor
    variables = (variable for key in VARIABLE_KEYS for variable in tensor.graph.get_collection(key))
    return next((variable.read_value() for variable in variables if variable.op is tensor.op), tensor)
