"""Copies of parts of a graph, with other names, other inputs, or in another graph.

They are made all at once by `tpack.graph_copy`, so that loops are copied too.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import NodeCopier, add_to_graph, external_inputs
from tpack.tf1.contrib.graph_editor.select import get_walks_intersection_ops
from tpack.tf1.contrib.graph_editor.subgraph import SubGraphView, make_view
from tpack.tf1.contrib.graph_editor.util import make_placeholder_from_tensor
from tpack.utils.validation import mismatch, shown

Element: TypeAlias = tf.Tensor | tf.Operation


class TransformerInfo:
    """The copies that a `Transformer` made.

    Attributes:
        graph: the graph of the originals.
        graph_: the graph of the copies.
        scope: the name scope of the originals.
        scope_: the name scope of the copies.
        sgv: the view of the originals.
        sgv_: the view of the copies.
    """

    def __init__(self, sgv: SubGraphView, graph_: tf.Graph, scope: str, scope_: str) -> None:
        self.sgv, self.sgv_ = sgv, SubGraphView()
        self.graph, self.graph_ = sgv.graph, graph_
        self.scope, self.scope_ = scope, scope_
        self._transformed_ops: dict[tf.Operation, tf.Operation] = {}
        self._transformed_ts: dict[tf.Tensor, tf.Tensor] = {}

    def transformed(self, original: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """Return the copies of a nest of tensors, operations or their names.

        Args:
            original: the nest.
            missing_fn: returns what stands for an element without a copy; None for None.
        """
        return self._mapped(original, {**self._transformed_ops, **self._transformed_ts}, self.graph, missing_fn)

    def original(self, transformed: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """Return the originals of a nest of copies; arguments as for `transformed`."""
        pairs = (*self._transformed_ops.items(), *self._transformed_ts.items())
        return self._mapped(transformed, {copied: original for original, copied in pairs}, self.graph_, missing_fn)

    @staticmethod
    def _mapped(
        nest: Any, found: Mapping[Element, Element], graph: tf.Graph | None, missing_fn: Callable[[Any], Any] | None
    ) -> Any:
        def one(leaf: Any) -> Any:
            element = graph.as_graph_element(leaf) if isinstance(leaf, str) and graph is not None else leaf
            if element in found:
                return found[element]
            return None if missing_fn is None else missing_fn(element)

        return tf.nest.map_structure(one, nest)


def keep_t_if_possible_handler(info: TransformerInfo, t: tf.Tensor) -> tf.Tensor:
    """Return a tensor itself for a copy in the same graph, and a placeholder for one in another."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


def replace_t_with_placeholder_handler(info: TransformerInfo, t: tf.Tensor) -> tf.Tensor:
    """Return a placeholder in the place of a tensor."""
    with info.graph_.as_default():
        return make_placeholder_from_tensor(t, scope=info.scope_)


def transform_op_if_inside_handler(
    info: TransformerInfo, op: tf.Operation, keep_if_possible: bool = True
) -> tf.Operation | None:
    """Return the copy of an operation; without one, the operation itself in the same graph, and None in another."""
    if op in info.sgv.ops:
        return info._transformed_ops.get(op)
    return op if keep_if_possible and info.graph is info.graph_ else None


def assign_renamed_collections_handler(info: TransformerInfo, elem: Element, elem_: Element) -> None:
    """Add a copy to the collections of the original; those that TensorFlow does not name are in the copy's scope.

    Raises:
        ConfigError: The collection of an original is not in its scope.
    """
    known = {value for name, value in vars(tf.GraphKeys).items() if isinstance(value, str) and name.isupper()}
    assert info.graph is not None  # noqa: S101 (a view with an element has a graph)
    for name in info.graph.get_all_collection_keys():
        if not any(elem is item for item in info.graph.get_collection(name)):
            continue
        is_shared = name in known or not isinstance(name, str)
        info.graph_.add_to_collection(name if is_shared else _renamed(name, info), elem_)


def _renamed(name: str, info: TransformerInfo) -> str:
    if not name.startswith(info.scope):
        raise ConfigError(f"{name} got src_scope={info.scope!r}: expected a name scope that it is in")
    return info.scope_ + name.removeprefix(info.scope)


def copy_op_handler(
    info: TransformerInfo,
    op: tf.Operation,
    new_inputs: Any,
    copy_shape: bool = False,
    nodedef_fn: Callable[[tf.NodeDef], tf.NodeDef] | None = None,
) -> tuple[tf.Operation, list[tf.Tensor]]:
    """Copy one operation; return it and its tensors.

    Args:
        info: the copies so far.
        op: the operation.
        new_inputs: the tensors that the copy takes.
        copy_shape: not used: shapes of copies are inferred.
        nodedef_fn: returns the node to copy for that of the operation.
    """
    del copy_shape
    names = _Names(info)
    copier = NodeCopier({op.name}, names)
    node = op.node_def if nodedef_fn is None else nodedef_fn(op.node_def)
    inputs = [f"external_{index}:0" for index in range(len(new_inputs))]
    copier.add(node, inputs)
    with info.graph_.as_default():
        made = add_to_graph(copier.graph_def, inputs, dict(zip(inputs, new_inputs, strict=True)))
    return made[0], list(made[0].outputs)


class _Names:
    """The names of copies, each new in its graph."""

    def __init__(self, info: TransformerInfo) -> None:
        self._info = info
        self._names: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        op_name, colon, index = name.partition(":")
        if op_name not in self._names:
            with self._info.graph_.as_default(), tf.name_scope(None):
                wanted = _renamed(op_name, self._info)
                self._names[op_name] = self._info.graph_.unique_name(wanted)
        return self._names[op_name] + colon + index


class Transformer:
    """Copies views.

    Attributes:
        transform_external_input_handler: ``f(info, tensor)`` returns the tensor in the place of an input of the view.
        transform_external_hidden_input_handler: the same for tensors that are not inputs of a view with other inputs.
        transform_control_input_handler: ``f(info, op)`` returns the operation in the place of a control input from
            outside, or None.
        transform_op_handler: `copy_op_handler`, alone or by ``functools.partial`` with ``nodedef_fn``.
        assign_collections_handler: ``f(info, element, copy)`` adds a copy to collections.
        transform_original_op_handler: not used: copies have no original operation in TensorFlow's sense.
    """

    def __init__(self) -> None:
        self.transform_external_input_handler: Any = replace_t_with_placeholder_handler
        self.transform_external_hidden_input_handler: Any = keep_t_if_possible_handler
        self.transform_control_input_handler: Any = transform_op_if_inside_handler
        self.transform_op_handler: Any = copy_op_handler
        self.assign_collections_handler: Any = assign_renamed_collections_handler
        self.transform_original_op_handler: Any = transform_op_if_inside_handler

    def __call__(
        self, sgv: Any, dst_graph: tf.Graph, dst_scope: str, src_scope: str = "", reuse_dst_scope: bool = False
    ) -> tuple[SubGraphView, TransformerInfo]:
        """Copy a view.

        Args:
            sgv: the view.
            dst_graph: the graph of the copy.
            dst_scope: its name scope; if it is in use, the next free name is taken.
            src_scope: the name scope that is left out of the names of copies.
            reuse_dst_scope: whether the name scope is taken even if it is in use.

        Returns:
            The view of the copies, and what was copied.

        Raises:
            ConfigError: An operation is not in ``src_scope``, or a handler is not supported.
            WrongTypeError: ``dst_graph`` is something else.
        """
        if not isinstance(dst_graph, tf.Graph):
            raise WrongTypeError(mismatch(self, "dst_graph", dst_graph, "a tf.Graph"))
        view = make_view(sgv)
        if dst_scope and not reuse_dst_scope:
            with dst_graph.as_default(), tf.name_scope(None):
                dst_scope = dst_graph.unique_name(dst_scope.removesuffix("/"))
        info = TransformerInfo(
            view, dst_graph, *(f"{name.removesuffix('/')}/" if name else "" for name in (src_scope, dst_scope))
        )
        made = self._copy(info)
        info._transformed_ops.update(zip(view.ops, made, strict=True))
        for op, copied in info._transformed_ops.items():
            info._transformed_ts.update(zip(op.outputs, copied.outputs, strict=True))
        for elements in (info._transformed_ops, info._transformed_ts):
            for original, element in elements.items():
                self.assign_collections_handler(info, original, element)
        whole = SubGraphView(made)
        info.sgv_ = whole.copy()
        info.sgv_._inputs = _kept(view.inputs, info, whole.inputs)
        info.sgv_._outputs = _kept(view.outputs, info, whole.outputs)
        return info.sgv_, info

    def _copy(self, info: TransformerInfo) -> list[tf.Operation]:
        change = self._change_of_nodes()
        nodes = [change(op.node_def) for op in info.sgv.ops]
        names = _Names(info)
        is_one_graph = info.graph is info.graph_
        copier = NodeCopier({node.name for node in nodes}, names, lambda name: name if is_one_graph else None)
        external = [name for name in external_inputs(nodes) if not name.startswith("^") or self._keeps(info, name)]
        # An operation may be a control input, which stays, beside an input that is replaced.
        given = {_whole(name): self._external(info, _whole(name)) for name in external if not name.startswith("^")}
        for node in nodes:
            kept = [name for name in node.input if not name.startswith("^") or self._keeps(info, name)]
            inputs = [_whole(name) if name in external else copier.input(name) for name in kept]
            copied = copier.add(node, inputs)
            if node.op in op_kinds.VARIABLES and node.attr["shared_name"].s.decode() == node.name:
                copied.attr["shared_name"].s = copied.name.encode()
        with info.graph_.as_default():
            made = {op.name: op for op in add_to_graph(copier.graph_def, map(_whole, external), given)}
        return [made[names(op.name)] for op in info.sgv.ops]

    def _change_of_nodes(self) -> Callable[[tf.NodeDef], tf.NodeDef]:
        handler = self.transform_op_handler
        if handler is copy_op_handler:
            return lambda node: node
        if isinstance(handler, functools.partial) and handler.func is copy_op_handler and not handler.args:
            return handler.keywords.get("nodedef_fn") or (lambda node: node)
        expected = "copy_op_handler, alone or as functools.partial(copy_op_handler, nodedef_fn=...)"
        raise ConfigError(f"Transformer got transform_op_handler={shown(handler)}: expected {expected}")

    def _external(self, info: TransformerInfo, name: str) -> tf.Tensor:
        assert info.graph is not None  # noqa: S101 (a view with an operation has a graph)
        tensor = info.graph.get_tensor_by_name(name)
        is_input = any(tensor is known for known in info.sgv.inputs)
        handler = self.transform_external_input_handler if is_input else self.transform_external_hidden_input_handler
        made: tf.Tensor = handler(info, tensor)
        return made

    def _keeps(self, info: TransformerInfo, name: str) -> bool:
        assert info.graph is not None  # noqa: S101 (a view with an operation has a graph)
        op = info.graph.get_operation_by_name(name.removeprefix("^"))
        return op in info.sgv.ops or self.transform_control_input_handler(info, op) is not None


def _whole(name: str) -> str:
    """Return the name of an input with its number; control inputs have none."""
    return name if name.startswith("^") or ":" in name else f"{name}:0"


def _kept(tensors: list[tf.Tensor], info: TransformerInfo, known: list[tf.Tensor]) -> list[tf.Tensor]:
    copies = [info._transformed_ts[tensor] for tensor in tensors if tensor in info._transformed_ts]
    return [tensor for tensor in copies if any(tensor is other for other in known)]


def copy(
    sgv: Any, dst_graph: tf.Graph | None = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a view, with placeholders for its inputs; arguments and results as for `Transformer`.

    ``dst_graph`` None stands for the graph of the view.
    """
    view = make_view(sgv)
    return Transformer()(view, _graph(view, dst_graph), dst_scope, src_scope, reuse_dst_scope)


def copy_with_input_replacements(
    sgv: Any,
    replacement_ts: Mapping[Any, tf.Tensor],
    dst_graph: tf.Graph | None = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a view with other inputs; those without a replacement stay in the same graph.

    Args:
        sgv: the view.
        replacement_ts: {input: the tensor in its place}.
        dst_graph: see `copy`.
        dst_scope: see `Transformer`.
        src_scope: see `Transformer`.
        reuse_dst_scope: see `Transformer`.
    """
    view = make_view(sgv)

    def replaced(info: TransformerInfo, tensor: tf.Tensor) -> tf.Tensor:
        return replacement_ts[tensor] if tensor in replacement_ts else keep_t_if_possible_handler(info, tensor)

    transformer = Transformer()
    transformer.transform_external_input_handler = replaced
    return transformer(view, _graph(view, dst_graph), dst_scope, src_scope, reuse_dst_scope)


def _graph(view: SubGraphView, graph: tf.Graph | None) -> tf.Graph:
    return graph or view.graph or tf.get_default_graph()


def graph_replace(
    target_ts: Any,
    replacement_ts: Mapping[tf.Tensor, tf.Tensor],
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """Return a nest of tensors computed of other tensors, by copies of the operations between.

    Args:
        target_ts: the nest.
        replacement_ts: {tensor: the tensor in its place}.
        dst_scope: see `Transformer`.
        src_scope: see `Transformer`.
        reuse_dst_scope: see `Transformer`.

    Returns:
        The same nest; a tensor that depends on no replaced one is itself.

    Raises:
        ConfigError: None depends on a replaced tensor.
    """
    targets = tf.nest.flatten(target_ts)
    between = get_walks_intersection_ops(list(replacement_ts), targets)
    if not between:
        expected = "at least one that depends on a replaced tensor"
        raise ConfigError(f"graph_replace got {len(targets)} target_ts: expected {expected}")
    _, info = copy_with_input_replacements(between, replacement_ts, None, dst_scope, src_scope, reuse_dst_scope)
    return info.transformed(target_ts, missing_fn=lambda tensor: tensor)
