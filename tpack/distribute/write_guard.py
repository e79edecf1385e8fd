"""Checks against changes of one mirror of a variable, after which the mirrors would silently differ.

A TensorFlow 1 optimizer that is used without the strategy changes the mirror of the variable's handle: in a tower that
of the tower, by the tower's own gradients, and elsewhere the first one. The check runs when the operation is made, so
that the traceback shows the line of code.
"""

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.distribute.contexts import get_update_device
from tpack.errors import StrategyError
from tpack.graph_copy import op_kinds
from tpack.tower.context import get_current_tower_context
from tpack.tower.keras_values import gives_value
from tpack.tower.per_graph import PerGraph

_mirrors: PerGraph[dict[str, int]] = PerGraph(dict)
"""The names of the handles of all mirrors in a graph, each with how many its variable has."""


def refuse_lone_change(operation: tf.Operation) -> None:
    """Reject an operation of one of several towers that changes a value shared by all of them.

    Values that Keras layers load are initial values, and no change.

    Raises:
        StrategyError: An optimizer changes a variable, or something changes one mirror.
    """
    kind = operation.type
    if kind.startswith(op_kinds.OPTIMIZER_PREFIXES):
        raise StrategyError(
            f"an optimizer changes {_name(operation)} in one of several towers, by {kind}: there, use "
            "strategy.apply_gradients(optimizer, grads_and_vars), or wrap it in a DistributedOptimizer"
        )
    if gives_value(operation):
        return
    if kind.startswith((*op_kinds.ASSIGNMENTS, *op_kinds.SCATTER_PREFIXES)) and _name(operation) in _mirrors.here():
        raise StrategyError(
            f"{kind} changes {_name(operation)}, which all towers share, in one of several: assign to it in "
            "merge_call, or make it with an aggregation"
        )


def refuse_partial_change(operation: tf.Operation) -> None:
    """Raise a `StrategyError` for an operation that changes one of several mirrors, outside of updates.

    Assignments are allowed: the mirrored variable's own change all mirrors, and that of a mirror is explicit.
    """
    kind = operation.type
    if (
        not kind.startswith((*op_kinds.OPTIMIZER_PREFIXES, *op_kinds.SCATTER_PREFIXES))
        or get_update_device() is not None
    ):
        return
    if _mirrors.here().get(_name(operation), 1) > 1:
        tower = get_current_tower_context()
        if tower is not None and tower.total > 1:
            refuse_lone_change(operation)
        raise StrategyError(
            f"{kind} would change {_name(operation)} alone, one of several mirrors of a variable: use the "
            "variable's own methods, and in a scope of its strategy strategy.apply_gradients(optimizer, "
            "grads_and_vars), a DistributedOptimizer or strategy.update"
        )


def protect(variable: BaseVariable) -> None:
    """Register the components of a mirrored variable, or a shared variable, for the checks."""
    components = getattr(variable, "components", [variable])
    _mirrors.here().update({component.op.name: len(components) for component in components})


def _name(operation: tf.Operation) -> str:
    """Return the name of the variable that an operation changes, its first input."""
    return str(_outer(operation.inputs[0]).op.name) if len(operation.inputs) else ""


def _outer(tensor: tf.Tensor) -> tf.Tensor:
    """Return a tensor, captured by the body of a condition, loop or function, in the outer graph."""
    for outer, inner in getattr(tensor.graph, "captures", ()):
        if inner is tensor:
            return _outer(outer)
    return tensor
