"""Dependencies between operations of a graph."""

from collections.abc import Container, Iterable, Iterator
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.types import Fetches

__all__ = ["dependency_of_fetches", "dependency_of_targets"]

GraphElement: TypeAlias = tf.Operation | tf.Tensor | tf.Variable
"""What an operation stands behind."""


def dependency_of_targets(targets: Iterable[GraphElement], op: GraphElement) -> bool:
    """Tell whether running any of the targets (operations, tensors or variables) runs the operation of ``op``.

    Raises:
        ConfigError: Something is none of these.
    """
    return _operation(op) in ancestors(targets)


def dependency_of_fetches(fetches: Fetches, op: GraphElement) -> bool:
    """Tell whether ``session.run(fetches)``, of any nest and of names in the current graph too, runs ``op``.

    Raises:
        ConfigError: Something is not an operation, tensor or variable.
    """
    graph, leaves = tf.get_default_graph(), tf.nest.flatten(fetches, expand_composites=True)
    targets = [graph.as_graph_element(leaf) if isinstance(leaf, str) else leaf for leaf in leaves]
    return dependency_of_targets(targets, op)


def ancestors(targets: Iterable[GraphElement], up_to: Iterable[tf.Tensor] = ()) -> set[tf.Operation]:
    """Return the operations of the targets, and all that they need, through control inputs too.

    Args:
        targets: operations, tensors or variables.
        up_to: tensors that are fed, so that the operations that compute them are not needed.

    Raises:
        ConfigError: Something is none of these.
    """
    fed = {tensor.name for tensor in up_to}
    waiting = [_operation(target) for target in targets if getattr(target, "name", None) not in fed]
    found = set(waiting)
    while waiting:
        op = waiting.pop()
        for needed in needed_by(op, fed):
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def needed_by(op: tf.Operation, fed: Container[str] = ()) -> Iterator[tf.Operation]:
    """Yield the operations of an operation's inputs, except fed ones, and its control inputs."""
    yield from (tensor.op for tensor in op.inputs if tensor.name not in fed)
    yield from op.control_inputs


def dependents(first: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Return, in order, the operations of the current graph that are among the first ones or need one of them."""
    found = {op.name for op in first}
    ops, num_before = tf.get_default_graph().get_operations(), 0
    # A control input may be younger than its operation, so one pass is not enough.
    while num_before < len(found):
        num_before = len(found)
        found.update(op.name for op in ops if any(other.name in found for other in needed_by(op)))
    return [op for op in ops if op.name in found]


def is_handle(tensor: tf.Tensor) -> bool:
    """Tell whether a tensor is a resource or a reference, whose content operations can change."""
    return bool(tensor.dtype == tf.resource or tensor.dtype != tensor.dtype.base_dtype)


def _operation(element: GraphElement) -> tf.Operation:
    if isinstance(element, tf.Operation):
        return element
    op = getattr(element, "op", None)
    if not isinstance(op, tf.Operation):
        raise ConfigError(f"got {element!r:.100}: expected an operation, a tensor or a variable")
    return op
