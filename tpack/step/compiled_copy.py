"""A step a second time in its graph, for XLA, so that it can be run both ways.

What carries a mark for XLA when a session first runs it is compiled from then on. So the step stays as it is, and there
is a copy of all that depends on what would be compiled: the operations themselves, what uses their results, and what
runs after them, such as optimizers and callbacks' operations. What comes before, such as inputs, is not copied, and
neither is what holds values from one step to the next: both steps use the same variables, queues and iterators. A run
makes one of the two steps, and each goes on where the last one ended, whichever it was.
"""

from collections.abc import Iterable, Iterator, Mapping

import tensorflow.compat.v1 as tf

from tpack import compat
from tpack.errors import ConfigError
from tpack.step.fetch_plan import GraphElement

_SCOPE = "compiled"
_COLOCATION = b"loc:@"
_LOOP_TYPES = ("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration")
# What TensorFlow calls stateful though it keeps nothing of its own from one step to the next.
_KEEPING_NOTHING = frozenset(
    {"Assert", "Print", "PrintV2", "PyFunc", "EagerPyFunc", "PartitionedCall", "StatefulPartitionedCall", "If", "Case"}
    | {"While"}
)


class CompiledCopy:
    """A copy of what depends on some operations of the current graph, which must be complete.

    Args:
        scopes: the operations that XLA is to compile in the copy, and which of them together: those of one scope.

    Creates:
        As many operations as depend on them.

    Raises:
        ConfigError: Something cannot be copied, since both steps could not share what it holds.
    """

    def __init__(self, scopes: Mapping[tf.Operation, str]) -> None:
        graph = tf.get_default_graph()
        ops = _dependent_on(scopes, graph.get_operations())
        for op in ops:
            _check_can_be_copied(op)
        self._prefix = f"{graph.unique_name(_SCOPE)}/"
        self._copied = {op.name for op in ops}
        nodes = tf.GraphDef(versions=graph.graph_def_versions)
        for op in ops:
            self._copy(op, nodes.node.add())
        compat.add_nodes(graph, nodes, *self._inputs(ops))
        self._graph = graph
        for op, scope in scopes.items():
            compat.mark_for_compilation(graph.get_operation_by_name(self._prefix + op.name), scope)

    def in_place_of(self, element: GraphElement) -> GraphElement:
        """Return what stands in the compiled step for a tensor or operation: its copy, or itself if there is none."""
        op = element if isinstance(element, tf.Operation) else element.op
        if op.name not in self._copied:
            return element
        return self._graph.as_graph_element(self._prefix + element.name)

    def _copy(self, op: tf.Operation, node: tf.NodeDef) -> None:
        node.CopyFrom(op.node_def)
        node.name = self._prefix + op.name
        node.input[:] = [self._renamed(name) for name in node.input]
        if "_class" in node.attr:
            groups = node.attr["_class"].list.s
            names = [group.removeprefix(_COLOCATION).decode() for group in groups]
            groups[:] = [_COLOCATION + self._renamed(name).encode() for name in names]

    def _renamed(self, name: str) -> str:
        """Return what an input, control input or operation is called in the copy."""
        plain = name.removeprefix("^")
        if plain.partition(":")[0] not in self._copied:
            return name
        return f"{'^' if name.startswith('^') else ''}{self._prefix}{plain}"

    def _inputs(self, ops: Iterable[tf.Operation]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Operation]]:
        """Return the inputs and control inputs that are not copied, by their names."""
        tensors = {tensor.name: tensor for op in ops for tensor in op.inputs if tensor.op.name not in self._copied}
        before = {other.name: other for op in ops for other in op.control_inputs if other.name not in self._copied}
        return tensors, before


def _dependent_on(first: Iterable[tf.Operation], ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Return those of some operations that are among the first or need one of them, in their order."""
    found = {op.name for op in first}
    ops, num_before = list(ops), 0
    # An operation may have got a control input that was made after it, so once through them need not do.
    while num_before < len(found):
        num_before = len(found)
        found.update(op.name for op in ops if any(other.name in found for other in _needed_by(op)))
    return [op for op in ops if op.name in found]


def _needed_by(op: tf.Operation) -> Iterator[tf.Operation]:
    yield from (tensor.op for tensor in op.inputs)
    yield from op.control_inputs


def _check_can_be_copied(op: tf.Operation) -> None:
    if op.type in _LOOP_TYPES:
        raise ConfigError(f"{op.name} ({op.type}) is a part of a loop of TensorFlow 1")
    takes_what_holds = any(tensor.dtype == tf.resource or tensor.dtype._is_ref_dtype for tensor in op.inputs)
    if op.op_def.is_stateful and not takes_what_holds and op.type not in _KEEPING_NOTHING:
        raise ConfigError(f"{op.name} ({op.type}) keeps something from one step to the next that a copy would lack")
