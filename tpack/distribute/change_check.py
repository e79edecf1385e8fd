"""Refuse changes of variables that only one tower makes, where the copies of the others would silently drift away.

An optimizer of TensorFlow 1 that is used in a tower as it is, without the strategy, would apply the tower's own
gradients to the tower's own mirror. This is noticed when the operation is made, so that the traceback shows which line
of code makes it. In the body of a condition or a loop it is not noticed.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.mirrored_variable import MirroredVariable
from tpack.errors import StrategyError

_OPTIMIZERS = ("ResourceApply", "ResourceSparseApply")
_CHANGES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatter")
_KEY = ("tpack_mirrors",)
"""The handles of a graph's mirrors. A tuple as the key, which TensorFlow's own stores have, is never saved."""


def refuse_lone_change(operation: Any) -> None:
    """Refuse an operation that one of several towers makes, if it changes what is the same in all of them.

    Args:
        operation: the operation.

    Raises:
        StrategyError: An optimizer changes a variable, or something changes one mirror.
    """
    kind = operation.type
    if kind.startswith(_OPTIMIZERS):
        raise StrategyError(
            f"an optimizer changes {_name(operation)} in one of several towers, by {kind}: there, use "
            "strategy.apply_gradients(optimizer, grads_and_vars), or wrap it in a DistributedOptimizer"
        )
    if kind.startswith(_CHANGES) and _name(operation) in _mirrors():
        raise StrategyError(
            f"{kind} changes {_name(operation)}, the mirror of one of several towers, in this one only: assign to the "
            "mirrored variable, in merge_call or with an aggregation"
        )


def protect(variable: MirroredVariable) -> None:
    """Let checks know the components of a mirrored variable, after it was made."""
    _mirrors().update(component.op.name for component in variable.components)


def _mirrors() -> set[str]:
    """Return the names of the handles of all mirrors in the current graph."""
    held = tf.get_default_graph().get_collection_ref(_KEY)
    if not held:
        held.append(set())
    names: set[str] = held[0]
    return names


def _name(operation: Any) -> str:
    """Return the name of the variable that an operation changes, its first input."""
    return str(operation.inputs[0].op.name) if len(operation.inputs) else ""
