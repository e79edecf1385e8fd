"""A second copy of the step in its graph for XLA, so that both can be run.

An operation that is marked for XLA in the first run of a session is compiled from then on. So the step stays unmarked,
and all operations that depend on the compiled ones are copied, such as optimizers and callbacks' operations. Inputs,
variables, queues and iterators are shared. Each run makes one of the two steps, and continues where the last one ended.
"""

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from tpack import compat
from tpack.errors import ConfigError
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import NodeCopier, add_to_graph
from tpack.step.fetch_plan import GraphElement
from tpack.tfutils.dependency import dependents, is_handle

_SCOPE = "compiled"


class CompiledCopy:
    """A copy of all operations that depend on some in the current graph, which must be complete.

    Args:
        scopes: the operations for XLA, each with a scope; those of one scope are compiled together.

    Creates:
        As many operations as depend on them.

    Raises:
        ConfigError: Something cannot be copied, since the two steps could not share its state.
    """

    def __init__(self, scopes: Mapping[tf.Operation, str]) -> None:
        graph = tf.get_default_graph()
        ops = dependents(scopes)
        for op in ops:
            _check_can_be_copied(op)
        self._prefix = f"{graph.unique_name(_SCOPE)}/"
        self._copied = {op.name for op in ops}
        copier = NodeCopier(self._copied, lambda name: self._prefix + name)
        for op in ops:
            copier.add(op.node_def)
        add_to_graph(copier.graph_def)
        self._graph = graph
        for op, scope in scopes.items():
            compat.mark_for_compilation(graph.get_operation_by_name(self._prefix + op.name), scope)

    def in_place_of(self, element: GraphElement) -> GraphElement:
        """Return the copy of a tensor or operation in the compiled step, or itself if there is none."""
        op = element if isinstance(element, tf.Operation) else element.op
        if op.name not in self._copied:
            return element
        return self._graph.as_graph_element(self._prefix + element.name)


def _check_can_be_copied(op: tf.Operation) -> None:
    if op.type in op_kinds.LOOP_PARTS:
        raise ConfigError(f"{op.name} ({op.type}) is a part of a loop of TensorFlow 1")
    if has_own_state(op):
        raise ConfigError(f"{op.name} ({op.type}) keeps something from one step to the next that a copy would lack")


def has_own_state(op: tf.Operation) -> bool:
    """Tell whether an operation has state between steps that a copy of it would lack."""
    return (
        bool(op.op_def.is_stateful) and not any(map(is_handle, op.inputs)) and op.type not in op_kinds.SHARED_BY_COPIES
    )
