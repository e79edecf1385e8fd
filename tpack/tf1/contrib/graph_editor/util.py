"""Lists of operations and tensors, control outputs, and placeholders."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.utils.validation import mismatch

Ops: TypeAlias = Any
"""A graph, an operation or several."""

Tensors: TypeAlias = Any
"""A graph, a tensor or several."""


class ControlOutputs:
    """The control outputs of all operations of a graph, which TensorFlow keeps by their ends.

    Args:
        graph: the graph.

    Raises:
        WrongTypeError: It is something else.
    """

    def __init__(self, graph: tf.Graph) -> None:
        if not isinstance(graph, tf.Graph):
            raise WrongTypeError(mismatch(self, "graph", graph, "a tf.Graph"))
        self._graph = graph
        self._known = -1
        self._outputs: dict[tf.Operation, list[tf.Operation]] = {}

    @property
    def graph(self) -> tf.Graph:
        """The graph."""
        return self._graph

    def update(self) -> "ControlOutputs":
        """Look again if the graph has grown; return the object."""
        operations = self._graph.get_operations()
        if len(operations) != self._known:
            self._known = len(operations)
            self._outputs = {}
            for op in operations:
                for control_input in op.control_inputs:
                    self._outputs.setdefault(control_input, []).append(op)
        return self

    def get_all(self) -> dict[tf.Operation, list[tf.Operation]]:
        """Return the control outputs of all operations that have any."""
        return self.update()._outputs

    def get(self, op: tf.Operation) -> list[tf.Operation]:
        """Return the control outputs of an operation."""
        return self.get_all().get(op, [])


def make_list_of_op(
    ops: Ops, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False
) -> list[tf.Operation]:
    """Return operations as a list, those of a graph too.

    Args:
        ops: an operation, several, or a graph.
        check_graph: not used: all operations are of one graph, or TensorFlow refuses them.
        allow_graph: whether it may be a graph.
        ignore_ts: whether tensors among them are left out.

    Raises:
        WrongTypeError: There is something else.
    """
    del check_graph
    if isinstance(ops, tf.Graph) and allow_graph:
        return list(ops.get_operations())
    return _list_of(ops, tf.Operation, tf.Tensor if ignore_ts else None, "make_list_of_op", "ops")


def make_list_of_t(
    ts: Tensors, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False
) -> list[tf.Tensor]:
    """Return tensors as a list, those of a graph too.

    Args:
        ts: a tensor, several, or a graph.
        check_graph: not used: all tensors are of one graph, or TensorFlow refuses them.
        allow_graph: whether it may be a graph.
        ignore_ops: whether operations among them are left out.

    Raises:
        WrongTypeError: There is something else.
    """
    del check_graph
    if isinstance(ts, tf.Graph) and allow_graph:
        return get_tensors(ts)
    return _list_of(ts, tf.Tensor, tf.Operation if ignore_ops else None, "make_list_of_t", "ts")


def _list_of(items: Any, wanted: type, ignored: type | None, owner: str, name: str) -> list[Any]:
    # A tensor has an iterator, which refuses in a graph.
    several = items if is_iterable(items) else [items]
    kept = [item for item in several if ignored is None or not isinstance(item, ignored)]
    for item in kept:
        if not isinstance(item, wanted):
            raise WrongTypeError(mismatch(owner, name, item, f"objects of {wanted.__name__}"))
    return kept


def is_iterable(items: Any) -> bool:
    """Tell whether something is a collection, and not a single tensor, operation or text."""
    return isinstance(items, Iterable) and not isinstance(items, (tf.Tensor, tf.Operation, str, bytes))


def get_tensors(graph: tf.Graph) -> list[tf.Tensor]:
    """Return all tensors of a graph.

    Raises:
        WrongTypeError: It is something else.
    """
    if not isinstance(graph, tf.Graph):
        raise WrongTypeError(mismatch("get_tensors", "graph", graph, "a tf.Graph"))
    return [tensor for op in graph.get_operations() for tensor in op.outputs]


def get_generating_ops(ts: Tensors) -> list[tf.Operation]:
    """Return the operation of each tensor."""
    return [tensor.op for tensor in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: Tensors) -> list[tf.Operation]:
    """Return the operations that take any of the tensors, each once."""
    tensors = make_list_of_t(ts, allow_graph=False)
    return list(dict.fromkeys(op for tensor in tensors for op in tensor.consumers()))


def placeholder_name(t: tf.Tensor | None = None, scope: str | None = None, prefix: str = "geph") -> str:
    """Return the name of a placeholder.

    Args:
        t: the tensor in whose place it is; None for none.
        scope: its name scope; None for that of the tensor, ``""`` for none.
        prefix: the beginning of its name.

    Raises:
        WrongTypeError: ``t`` is something else.
    """
    scope = scope if not scope or scope.endswith("/") else f"{scope}/"
    if t is None:
        return f"{scope or ''}{prefix}"
    if not isinstance(t, tf.Tensor):
        raise WrongTypeError(mismatch("placeholder_name", "t", t, "a tf.Tensor"))
    directory, _, name = t.op.name.rpartition("/")
    own = f"{directory}/" if directory else ""
    return f"{own if scope is None else scope}{prefix}__{name}_{t.value_index}"


def make_placeholder_from_tensor(t: tf.Tensor, scope: str | None = None, prefix: str = "geph") -> tf.Tensor:
    """Return a placeholder of the dtype and shape of a tensor; arguments as for `placeholder_name`."""
    return _placeholder(t.dtype, t.shape, placeholder_name(t, scope, prefix))


def make_placeholder_from_dtype_and_shape(
    dtype: tf.DType, shape: Any = None, scope: str | None = None, prefix: str = "geph"
) -> tf.Tensor:
    """Return a placeholder; arguments as for `placeholder_name`."""
    return _placeholder(dtype, shape, placeholder_name(None, scope, prefix))


def _placeholder(dtype: tf.DType, shape: Any, name: str) -> tf.Tensor:
    # The name is complete: open name scopes do not count.
    with tf.name_scope(None):
        return tf.placeholder(dtype, shape, name)
