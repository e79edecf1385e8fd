"""Lookup in the current graph: operations and tensors by name, and the global step.

A wrong name lists those near it. The global step is one integer variable per graph that counts training steps over all
runs, at the top of the graph whatever scope first asks for it, so that every checkpoint has it as ``global_step``.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.scope_utils import shared_by_towers
from tpack.tower.names import op_and_tensor_name

GLOBAL_STEP_NAME = "global_step"
_MAX_NEAR = 5


def get_tensors_by_names(names: Iterable[str]) -> list[tf.Tensor]:
    """Return tensors of the current graph.

    Args:
        names: such as ``"scope/cost"``, which means output 0, or ``"scope/cost:0"``.

    Raises:
        ConfigError: There is no such tensor, or what is given is not a list of names.
    """
    if isinstance(names, str):
        raise ConfigError(f"expected a list of names, got the single string {names!r}")
    return [_tensor(name) for name in names]


def get_op_or_tensor_by_name(
    name: str | Sequence[str],
) -> tf.Operation | tf.Tensor | list[tf.Operation | tf.Tensor]:
    """Return the tensor that a name such as ``"cost:0"`` means, or the operation that one without a colon means.

    Args:
        name: a name, or a list of names.

    Returns:
        What has the name, or a list for a list.

    Raises:
        ConfigError: The current graph has nothing of that name.
    """
    if not isinstance(name, str):
        return [get_op_or_tensor_by_name(each) for each in name]
    return _tensor(name) if ":" in name else _operation(name)


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the known names that resemble one that is not known, as the end of a message; nothing if none does.

    The same name in another scope comes before a similar name.
    """
    unique = list(dict.fromkeys(known))
    last = name.rpartition("/")[2]
    elsewhere = [each for each in unique if each.rpartition("/")[2] == last]
    near = list(dict.fromkeys([*elsewhere, *get_close_matches(name, unique, n=_MAX_NEAR)]))[:_MAX_NEAR]
    return f"; near names: {', '.join(near)}" if near else ""


def gpu_available_in_session() -> bool:
    """Tell whether the default session has a GPU.

    Raises:
        ConfigError: There is no default session.
    """
    session = tf.get_default_session()
    if session is None:
        raise ConfigError("a session knows its devices, and none is the default one")
    return any(device.device_type == "GPU" for device in session.list_devices())


def get_global_step_var() -> tf.Variable:
    """Return the current graph's global step, creating it if there is none.

    The current name scope, variable scope, reuse, custom getters, devices and control dependencies do not matter.

    Creates:
        At most one int64 resource variable ``global_step`` on the CPU, in GLOBAL_VARIABLES and GLOBAL_STEP.

    Raises:
        GraphBuildError: No graph is current, or the graph has more than one global step.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            raise GraphBuildError(
                "expected a graph to put the global step into, and TensorFlow is executing eagerly: "
                "call this inside `with graph.as_default():`"
            )
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
        raise ConfigError("the global step's value lives in a session, and none is the default one")
    steps = session.graph.get_collection(tf.GraphKeys.GLOBAL_STEP)
    if not steps:
        raise ConfigError("the default session's graph has no global step: call get_global_step_var() when building it")
    return int(session.run(steps[0]))


def _tensor(name: str) -> tf.Tensor:
    op_name, tensor_name = op_and_tensor_name(name)
    outputs = _operation(op_name).outputs
    index = int(tensor_name.rpartition(":")[2])
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
        step = tf.get_variable(
            GLOBAL_STEP_NAME, shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False
        )
    # Not among the arguments above: a variable that existed already would not be added.
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return step
