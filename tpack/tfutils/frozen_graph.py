"""A graph in one message, to be written to a file: variables become constants, and what only training needs goes."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

# Each has one input and gives it on as it is.
_PASSING = frozenset({"CheckNumerics", "Identity", "StopGradient"})


def freeze(session: Any, outputs: Sequence[Any]) -> Any:
    """Return the GraphDef of what the outputs need, with the session's values in place of variables, and no devices.

    Args:
        session: the session of the outputs' graph, in which the variables have values.
        outputs: tensors.
    """
    names = [tensor.op.name for tensor in outputs]
    frozen = tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), names)
    for node in frozen.node:
        node.device = ""
        node.attr.pop("_class", None)
    return frozen


def without_passing_nodes(graph_def: Any, keep: Iterable[str]) -> Any:
    """Return a GraphDef without the nodes that only give their input on; what used them uses their inputs.

    Nodes with control edges stay, since they may be there for the order. (TensorFlow's ``remove_training_nodes`` also
    drops the inputs that came from a check of numbers.)

    Args:
        graph_def: a GraphDef.
        keep: names of nodes that stay in any case.
    """
    awaited = {name[1:] for node in graph_def.node for name in node.input if name.startswith("^")}
    fixed = awaited | set(keep)
    source = {
        node.name: node.input[0]
        for node in graph_def.node
        if node.op in _PASSING and node.name not in fixed and len(node.input) == 1
    }
    result = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name in source:
            continue
        copy = result.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [_resolve(name, source) for name in node.input]
    return result


def _resolve(name: str, source: dict[str, str]) -> str:
    """Follow an input up to a node that stays; ``name:0`` is another way to write ``name``."""
    while name.removesuffix(":0") in source:
        name = source[name.removesuffix(":0")]
    return name
