"""Views that are taken out of their graph, connected, or left out."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.graph_editor import reroute
from tpack.tf1.contrib.graph_editor.select import check_cios
from tpack.tf1.contrib.graph_editor.subgraph import SubGraphView, make_view
from tpack.tf1.contrib.graph_editor.util import ControlOutputs, make_placeholder_from_tensor


def detach_control_inputs(sgv: Any) -> None:
    """Remove the control inputs of a view that come from outside."""
    view = make_view(sgv)
    for op in view.ops:
        outside = [other for other in op.control_inputs if other not in view.ops]
        if outside:
            reroute.remove_control_inputs(op, outside)


def detach_control_outputs(sgv: Any, control_outputs: ControlOutputs) -> None:
    """Remove the control inputs of operations outside of a view that come from it."""
    view = make_view(sgv)
    for op in view.ops:
        for other in control_outputs.get(op):
            if other not in view.ops:
                reroute.remove_control_inputs(other, op)


def detach_inputs(sgv: Any, control_inputs: bool = False) -> tuple[SubGraphView, list[tf.Tensor]]:
    """Put placeholders in the place of a view's inputs; return the view and these.

    Args:
        sgv: the view.
        control_inputs: whether control inputs from outside are removed.
    """
    view = make_view(sgv)
    placeholders = _placeholders(view, view.inputs)
    reroute.reroute_ts(placeholders, view.inputs, can_modify=view.ops)
    view._inputs = list(placeholders)
    if control_inputs:
        detach_control_inputs(view)
    return view, placeholders


def detach_outputs(sgv: Any, control_outputs: ControlOutputs | None = None) -> tuple[SubGraphView, list[tf.Tensor]]:
    """Let those outside that take a view's outputs take placeholders; return the view and these.

    Args:
        sgv: the view.
        control_outputs: those of the graph, to remove the view's; None to keep them.
    """
    view = make_view(sgv)
    taken = [tensor for tensor in view.outputs if tensor.consumers()]
    placeholders = _placeholders(view, taken)
    reroute.reroute_ts(placeholders, taken, cannot_modify=view.ops)
    if control_outputs is not None:
        detach_control_outputs(view, control_outputs)
    return view, placeholders


def _placeholders(view: SubGraphView, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    if view.graph is None:
        return []
    with view.graph.as_default():
        return [make_placeholder_from_tensor(tensor) for tensor in tensors]


def detach(
    sgv: Any, control_inputs: bool = False, control_outputs: Any = None, control_ios: Any = None
) -> tuple[SubGraphView, list[tf.Tensor], list[tf.Tensor]]:
    """Detach inputs and outputs; return the view and the placeholders of both."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    view, inputs = detach_inputs(sgv, control_inputs)
    view, outputs = detach_outputs(view, control_outputs)
    return view, inputs, outputs


def connect(sgv0: Any, sgv1: Any, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """Let the second view take the outputs of the first; return both views.

    Args:
        sgv0: the first view.
        sgv1: the second view, with as many inputs.
        disconnect_first: whether the outputs of the first view are detached from those that took them.

    Raises:
        ConfigError: Numbers, dtypes or shapes do not fit.
    """
    first, second = make_view(sgv0), make_view(sgv1)
    if disconnect_first:
        detach_outputs(first)
    reroute.reroute_ts(first.outputs, second.inputs, can_modify=second.ops)
    second._inputs = first.outputs
    return first, second


def bypass(sgv: Any) -> tuple[SubGraphView, list[tf.Tensor]]:
    """Let those that take a view's outputs take its inputs; return the detached view and its new inputs.

    Raises:
        ConfigError: Numbers, dtypes or shapes do not fit.
    """
    view = make_view(sgv)
    inputs = view.inputs
    view, placeholders = detach_inputs(view)
    reroute.reroute_ts(inputs, view.outputs, cannot_modify=view.ops)
    return view, placeholders
