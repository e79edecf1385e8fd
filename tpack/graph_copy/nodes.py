"""Copies of operations: described as nodes under other names, then added to the graph all at once.

Towers, the loop of several steps and the step for XLA are copied in this way. Operations outside the copied set are
shared with the originals.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.operations import add_nodes

_COLOCATED = b"loc:@"


class NodeCopier:
    """Describes copies of operations that use each other, and otherwise the inputs of the originals.

    Args:
        copied: the names of the operations to copy.
        renamed: returns the name of a copy, or of its output, from that of the original.
        place_of: returns the operation to colocate with in place of an uncopied one; None drops the colocation.

    Attributes:
        graph_def: the copies so far.
    """

    def __init__(
        self,
        copied: Container[str],
        renamed: Callable[[str], str],
        place_of: Callable[[str], str | None] = lambda name: name,
    ) -> None:
        self.graph_def = tf.GraphDef(versions=tf.get_default_graph().graph_def_versions)
        self._copied = copied
        self._renamed = renamed
        self._place_of = place_of
        self._inputs: dict[str, str] = {}

    def add(self, node: tf.NodeDef, inputs: Iterable[str] | None = None) -> tf.NodeDef:
        """Add the copy of a node, by default with the inputs of the original (see `input`), and return it."""
        copy = self.graph_def.node.add()
        copy.CopyFrom(node)
        copy.name = self._renamed(node.name)
        copy.input[:] = list(map(self.input, node.input) if inputs is None else inputs)
        if "_class" in copy.attr:
            places = [self.input(name) if name in self._copied else self._place_of(name) for name in colocations(node)]
            copy.attr["_class"].list.s[:] = [_COLOCATED + place.encode() for place in places if place is not None]
            if None in places and not copy.attr["_class"].list.s:
                del copy.attr["_class"]
        return copy

    def input(self, name: str) -> str:
        """Return the input or control input of a copy for one of the original; each is looked up once."""
        renamed = self._inputs.get(name)
        if renamed is None:
            mark = "^" if name.startswith("^") else ""
            renamed = mark + self._renamed(name.removeprefix("^")) if op_of_input(name) in self._copied else name
            self._inputs[name] = renamed
        return renamed


def colocations(node: tf.NodeDef) -> list[str]:
    """Return the names of the operations with which a node is colocated."""
    texts = node.attr["_class"].list.s if "_class" in node.attr else ()
    return [text.removeprefix(_COLOCATED).decode() for text in texts]


def op_of_input(name: str) -> str:
    """Return the operation of a node's input."""
    return name.lstrip("^").partition(":")[0]


def external_inputs(nodes: Sequence[tf.NodeDef]) -> list[str]:
    """Return the inputs and control inputs of nodes that are not among them, each once."""
    inside = {node.name for node in nodes}
    names = (name for node in nodes for name in node.input)
    return list(dict.fromkeys(name for name in names if op_of_input(name) not in inside))


def add_to_graph(
    graph_def: tf.GraphDef, external: Iterable[str] | None = None, given: Mapping[str, tf.Tensor] | None = None
) -> list[tf.Operation]:
    """Add nodes to the current graph just as they are described; return the operations.

    Args:
        graph_def: the nodes, whose names are new in the graph.
        external: their inputs and control inputs from outside; found by default.
        given: replacements of some of these, by their names.
    """
    graph, given = tf.get_default_graph(), given or {}
    tensors: dict[str, tf.Tensor] = {}
    operations: dict[str, tf.Operation] = {}
    for name in external_inputs(graph_def.node) if external is None else external:
        plain = name.lstrip("^")
        tensor = given.get(plain)
        if name.startswith("^"):
            operations[plain] = graph.get_operation_by_name(plain) if tensor is None else tensor.op
        else:
            by_name = plain if ":" in plain else f"{plain}:0"
            tensors[name] = graph.get_tensor_by_name(by_name) if tensor is None else tensor
    return add_nodes(graph, graph_def, tensors, operations)
