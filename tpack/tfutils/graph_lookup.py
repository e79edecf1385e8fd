"""Find operations and tensors of the current graph by the names that people give; a wrong name lists those near it."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.names import op_and_tensor_name

_MAX_NEAR = 5


def get_tensors_by_names(names: Iterable[str]) -> list[Any]:
    """Return tensors of the current graph.

    Args:
        names: such as ``"scope/cost"``, which means output 0, or ``"scope/cost:0"``.

    Raises:
        ConfigError: There is no such tensor, or what is given is not a list of names.
    """
    if isinstance(names, str):
        raise ConfigError(f"wanted a list of names, got the single string {names!r}")
    return [_tensor(name) for name in names]


def get_op_or_tensor_by_name(name: str | Sequence[str]) -> Any:
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


def _tensor(name: str) -> Any:
    op_name, tensor_name = op_and_tensor_name(name)
    outputs = _operation(op_name).outputs
    index = int(tensor_name.rpartition(":")[2])
    if index >= len(outputs):
        raise ConfigError(f"there is no tensor {tensor_name!r}: the operation has {len(outputs)} output(s)")
    return outputs[index]


def _operation(name: str) -> Any:
    graph = tf.get_default_graph()
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        known = (op.name for op in graph.get_operations())
        raise ConfigError(f"there is no tensor or operation {name!r} in the graph{near_names(name, known)}") from None
