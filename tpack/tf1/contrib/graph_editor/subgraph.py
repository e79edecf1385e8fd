"""A view of a part of a graph, with numbered inputs and outputs."""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.graph_editor import select
from tpack.tf1.contrib.graph_editor.util import make_list_of_op, make_list_of_t


class SubGraphView:
    """A part of a graph: operations, and the tensors that enter and leave it.

    Methods that begin with ``remap`` return another view with other inputs or outputs. Functions that connect views
    change them.

    Args:
        inside_ops: the operations.
        passthrough_ts: tensors that are both inputs and outputs, unless they are one already.
    """

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()) -> None:
        self._ops = list(dict.fromkeys(make_list_of_op(inside_ops)))
        inputs, outputs, inside = select.compute_boundary_ts(self._ops)
        known = {*inputs, *outputs, *inside}
        self._passthroughs = [t for t in dict.fromkeys(make_list_of_t(passthrough_ts)) if t not in known]
        self._inputs = [*inputs, *self._passthroughs]
        self._outputs = [*outputs, *self._passthroughs]

    @property
    def ops(self) -> list[tf.Operation]:
        """The operations."""
        return list(self._ops)

    @property
    def inputs(self) -> list[tf.Tensor]:
        """The tensors that enter."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[tf.Tensor]:
        """The tensors that leave."""
        return list(self._outputs)

    @property
    def passthroughs(self) -> list[tf.Tensor]:
        """The tensors that do both."""
        return list(self._passthroughs)

    @property
    def connected_inputs(self) -> list[tf.Tensor]:
        """The inputs that an operation of the view takes."""
        return [tensor for tensor in self._inputs if tensor not in self._passthroughs]

    @property
    def connected_outputs(self) -> list[tf.Tensor]:
        """The outputs that an operation of the view makes."""
        return [tensor for tensor in self._outputs if tensor not in self._passthroughs]

    @property
    def graph(self) -> tf.Graph | None:
        """The graph; None for an empty view."""
        return next((part.graph for part in (*self._ops, *self._passthroughs)), None)

    def is_passthrough(self, t: tf.Tensor) -> bool:
        """Tell whether a tensor only passes."""
        return t in self._passthroughs

    def op(self, op_id: int) -> tf.Operation:
        """Return an operation by its number in the view."""
        return self._ops[op_id]

    def find_op_by_name(self, op_name: str) -> tf.Operation:
        """Return the operation with a name; raise a ConfigError if it is not in the view."""
        for op in self._ops:
            if op.name == op_name:
                return op
        raise ConfigError(f"SubGraphView got op_name={op_name!r}: expected one of its {len(self._ops)} operations")

    def input_index(self, t: tf.Tensor) -> int:
        """Return the number of an input; raise a ConfigError for another tensor."""
        return _index(self._inputs, t, "input")

    def output_index(self, t: tf.Tensor) -> int:
        """Return the number of an output; raise a ConfigError for another tensor."""
        return _index(self._outputs, t, "output")

    def consumers(self) -> list[tf.Operation]:
        """Return the operations outside of the view that take its outputs."""
        found = dict.fromkeys(op for tensor in self._outputs for op in tensor.consumers())
        return [op for op in found if op not in self._ops]

    def copy(self) -> "SubGraphView":
        """Return another view of the same."""
        view = SubGraphView()
        view._ops, view._passthroughs = self.ops, self.passthroughs
        view._inputs, view._outputs = self.inputs, self.outputs
        return view

    def remap(
        self, new_input_indices: Iterable[int] | None = None, new_output_indices: Iterable[int] | None = None
    ) -> "SubGraphView":
        """Return a view with these inputs and outputs, by their numbers; None for the same.

        Raises:
            ConfigError: A number is out of range.
        """
        view = self.copy()
        if new_input_indices is not None:
            view._inputs = _picked(self._inputs, new_input_indices, "new_input_indices")
        if new_output_indices is not None:
            view._outputs = _picked(self._outputs, new_output_indices, "new_output_indices")
        return view

    def remap_inputs(self, new_input_indices: Iterable[int]) -> "SubGraphView":
        """Return a view with these inputs; see `remap`."""
        return self.remap(new_input_indices=new_input_indices)

    def remap_outputs(self, new_output_indices: Iterable[int]) -> "SubGraphView":
        """Return a view with these outputs; see `remap`."""
        return self.remap(new_output_indices=new_output_indices)

    def remap_outputs_make_unique(self) -> "SubGraphView":
        """Return a view with each output once."""
        view = self.copy()
        view._outputs = list(dict.fromkeys(self._outputs))
        return view

    def remap_outputs_to_consumers(self) -> "SubGraphView":
        """Return a view with each output as often as it is taken."""
        view = self.remap_outputs_make_unique()
        view._outputs = [tensor for tensor in view._outputs for _ in tensor.consumers()]
        return view

    def remap_default(self, remove_input_map: bool = True, remove_output_map: bool = True) -> "SubGraphView":
        """Return a view with the inputs and outputs of the beginning, or with one of both."""
        whole, view = SubGraphView(self._ops, self._passthroughs), self.copy()
        view._inputs = whole.inputs if remove_input_map else view.inputs
        view._outputs = whole.outputs if remove_output_map else view.outputs
        return view

    def remove_unused_ops(self, control_inputs: bool = True) -> "SubGraphView":
        """Return a view without the operations that no output depends on."""
        ends = [tensor.op for tensor in self.connected_outputs]
        used = select.get_backward_walk_ops(ends, within_ops=self._ops, control_inputs=control_inputs)
        view = self.copy()
        view._ops = [op for op in self._ops if op in set(used)]
        view._inputs = [tensor for tensor in self._inputs if set(tensor.consumers()) & set(view._ops)]
        return view

    def __bool__(self) -> bool:
        """Tell whether there is anything in it."""
        return bool(self._ops or self._passthroughs)

    def __str__(self) -> str:
        """List operations, inputs and outputs."""
        lines = [f"SubGraphView (graphid={id(self.graph)}):"]
        for name, parts in (("ops", self._ops), ("inputs", self._inputs), ("outputs", self._outputs)):
            lines += [f"** {name}[{len(parts)}]:", *(f"  {part.name}" for part in parts)]
        return "\n".join([*lines, ""])


def _index(tensors: list[tf.Tensor], tensor: tf.Tensor, kind: str) -> int:
    for index, known in enumerate(tensors):
        if known is tensor:
            return index
    raise ConfigError(f"SubGraphView got {tensor!r}: expected one of its {len(tensors)} {kind}s")


def _picked(tensors: list[tf.Tensor], indices: Iterable[int], name: str) -> list[tf.Tensor]:
    picked = list(indices)
    for index in picked:
        if not 0 <= index < len(tensors):
            raise ConfigError(f"SubGraphView got {name} with {index}: expected numbers in [0, {len(tensors)})")
    return [tensors[index] for index in picked]


def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
    """Return a view of operations and of tensors that pass; arguments as for `select_ops_and_ts`.

    A view alone is returned as it is.
    """
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        return args[0]
    return SubGraphView(*select.select_ops_and_ts(*args, **kwargs))


def make_view_from_scope(scope: str, graph: tf.Graph) -> SubGraphView:
    """Return a view of the operations in a name scope."""
    return SubGraphView(select.get_name_scope_ops(graph, scope))
