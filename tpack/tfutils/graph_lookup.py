"""Lookup in the current graph: operations and tensors by name, and the global step.

The global step is one integer variable per graph that counts training steps over all runs. It is at the top of the
graph whatever scope first requests it, so that every checkpoint has it as ``global_step``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.scope_utils import shared_by_towers
from tpack.tower.names import near_names, op_and_tensor_name
from tpack.utils.validation import mismatch

GLOBAL_STEP_NAME = "global_step"


def get_tensors_by_names(names: Iterable[str]) -> list[tf.Tensor]:
    """Return tensors of the current graph by names such as ``"scope/cost"`` (output 0) or ``"scope/cost:0"``.

    Raises:
        ConfigError: There is no such tensor, which lists near names, or the argument is not a list of names.
    """
    if isinstance(names, str):
        raise ConfigError(mismatch("get_tensors_by_names", "names", names, "a list of names"))
    return [_tensor(name) for name in names]


def get_op_or_tensor_by_name(name: str | Sequence[str]) -> Any:
    """Return the tensor of a name with a colon, the operation of one without, or a list for a list of names.

    Raises:
        ConfigError: The current graph has no such name. The message lists near names.
    """
    if not isinstance(name, str):
        return [get_op_or_tensor_by_name(each) for each in name]
    return _tensor(name) if ":" in name else _operation(name)


def gpu_available_in_session() -> bool:
    """Tell whether the default session has a GPU; raise a ConfigError if there is no default session."""
    session = tf.get_default_session()
    if session is None:
        raise ConfigError("gpu_available_in_session needs a default session: use `with session.as_default()`")
    return any(device.device_type == "GPU" for device in session.list_devices())


def get_global_step_var() -> tf.Variable:
    """Return the current graph's global step, creating it if there is none, in no scope and independent of all blocks.

    Creates:
        At most one int64 resource variable ``global_step`` on the CPU, in GLOBAL_VARIABLES and GLOBAL_STEP.

    Raises:
        GraphBuildError: No graph is current, or the graph has more than one global step.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            raise GraphBuildError("the global step needs a graph, not eager execution: use `with graph.as_default()`")
        steps = tf.get_collection(tf.GraphKeys.GLOBAL_STEP)
        if len(steps) > 1:
            raise GraphBuildError(f"expected one global step in the graph, found {', '.join(v.name for v in steps)}")
        return steps[0] if steps else _create_global_step()


def get_global_step_value() -> int:
    """Return the global step's value in the default session.

    Raises:
        ConfigError: There is no default session, or its graph has no global step.
    """
    session = tf.get_default_session()
    if session is None:
        raise ConfigError("get_global_step_value needs a default session: use `with session.as_default()`")
    steps = session.graph.get_collection(tf.GraphKeys.GLOBAL_STEP)
    if not steps:
        raise ConfigError("the default session's graph has no global step: call get_global_step_var() when building it")
    return int(session.run(steps[0]))


def _tensor(name: str) -> tf.Tensor:
    op_name, tensor_name = op_and_tensor_name(name)
    outputs, index = _operation(op_name).outputs, int(tensor_name.rpartition(":")[2])
    if index >= len(outputs):
        raise ConfigError(f"there is no tensor {tensor_name!r}: the operation has {len(outputs)} output(s)")
    return outputs[index]


def _operation(name: str) -> tf.Operation:
    graph = tf.get_default_graph()
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        known = (op.name for op in graph.get_operations())
        raise ConfigError(f"there is no tensor or operation {name!r} in the graph{near_names(name, known)}") from None


def _create_global_step() -> tf.Variable:
    # A variable scope made from scratch, unlike one entered by name, inherits nothing from the current one.
    top_scope = tf.VariableScope(reuse=tf.AUTO_REUSE, name="", use_resource=True)
    with (
        shared_by_towers(),
        tf.name_scope(None),
        tf.device(None),
        tf.device("/device:CPU:0"),
        tf.variable_scope(top_scope, auxiliary_name_scope=False),
    ):
        step = tf.get_variable(GLOBAL_STEP_NAME, [], tf.int64, tf.zeros_initializer(), trainable=False)
    # Not among the arguments above: a variable that existed already would not be added.
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return step
