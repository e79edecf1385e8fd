"""Other inputs for operations that exist.

A session that has run an operation does not notice another input: edit graphs before.

Source:
    ``tf.contrib.graph_editor``. Its ``swap`` functions went wrong where one operation takes both tensors; these do not.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.operations import replace_input, run_after, set_control_inputs
from tpack.errors import ConfigError
from tpack.tf1.contrib.graph_editor.subgraph import SubGraphView, make_view
from tpack.tf1.contrib.graph_editor.util import make_list_of_op, make_list_of_t
from tpack.utils.validation import mismatch


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Let the consumers of some tensors take others.

    Args:
        ts0: the tensors that are taken from now on.
        ts1: those that were, as many.
        can_modify: the operations that may change; None for all.
        cannot_modify: those that may not.

    Returns:
        The number of inputs that changed.

    Raises:
        ConfigError: The numbers of tensors, or their dtypes or shapes, do not fit.
        WrongTypeError: An argument is something else.
    """
    news, olds = _pairs(ts0, ts1)
    return _replace(_changes(news, olds, can_modify, cannot_modify))


def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Let the consumers of two lists of tensors take those of the other list; otherwise as `reroute_ts`."""
    first, second = _pairs(ts0, ts1)
    changes = _changes(first, second, can_modify, cannot_modify)
    return _replace({**changes, **_changes(second, first, can_modify, cannot_modify)})


_Change = dict[tuple[tf.Operation, int], tf.Tensor]


def _pairs(ts0: Any, ts1: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    news, olds = make_list_of_t(ts0), make_list_of_t(ts1)
    if len(news) != len(olds):
        raise ConfigError(f"got {len(news)} tensors and {len(olds)} tensors: expected as many of both")
    for new, old in zip(news, olds, strict=True):
        if new.dtype.base_dtype != old.dtype.base_dtype or not new.shape.is_compatible_with(old.shape):
            raise ConfigError(f"got {new} in place of {old}: expected the same dtype and shape")
    return news, olds


def _changes(news: Sequence[tf.Tensor], olds: Sequence[tf.Tensor], can_modify: Any, cannot_modify: Any) -> _Change:
    allowed = None if can_modify is None else set(make_list_of_op(can_modify))
    refused = set() if cannot_modify is None else set(make_list_of_op(cannot_modify))
    changes = {}
    for new, old in zip(news, olds, strict=True):
        for op in dict.fromkeys(old.consumers()):
            if op not in refused and (allowed is None or op in allowed):
                changes.update({(op, index): new for index, tensor in enumerate(op.inputs) if tensor is old})
    return changes


def _replace(changes: _Change) -> int:
    for (op, index), tensor in changes.items():
        replace_input(op, index, tensor)
    return len(changes)


def reroute_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Let the second view take the inputs of the first; return both views."""
    first, second = make_view(sgv0), make_view(sgv1)
    reroute_ts(first.inputs, second.inputs, can_modify=second.ops)
    second._inputs = first.inputs
    return first, second


def swap_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Let two views take each other's inputs; return both views."""
    first, second = make_view(sgv0), make_view(sgv1)
    _pairs(first.inputs, second.inputs)
    changes = _changes(first.inputs, second.inputs, second.ops, None)
    _replace({**changes, **_changes(second.inputs, first.inputs, first.ops, None)})
    first._inputs, second._inputs = second.inputs, first.inputs
    return first, second


def reroute_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Let those outside that take outputs of the second view take those of the first; return both views."""
    first, second = make_view(sgv0), make_view(sgv1)
    reroute_ts(first.outputs, second.outputs, cannot_modify=second.ops)
    return first, second


def swap_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Let those outside that take outputs of two views take those of the other; return both views."""
    first, second = make_view(sgv0), make_view(sgv1)
    swap_ts(first.outputs, second.outputs, cannot_modify=[*first.ops, *second.ops])
    return first, second


def reroute_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Reroute both inputs and outputs; return both views."""
    return reroute_outputs(*reroute_inputs(sgv0, sgv1))


def swap_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Swap both inputs and outputs; return both views."""
    return swap_outputs(*swap_inputs(sgv0, sgv1))


def add_control_inputs(op: tf.Operation, cops: Any) -> None:
    """Let an operation run after others.

    Raises:
        ConfigError: It does already.
        WrongTypeError: An argument is something else.
    """
    others = make_list_of_op(cops, allow_graph=False)
    for other in others:
        if other in op.control_inputs:
            raise ConfigError(mismatch("add_control_inputs", "cops", other.name, f"no control input of {op.name}"))
    run_after(op, others)


def remove_control_inputs(op: tf.Operation, cops: Any) -> None:
    """Let an operation no longer run after others.

    Raises:
        ConfigError: It does not.
        WrongTypeError: An argument is something else.
    """
    others = make_list_of_op(cops, allow_graph=False)
    for other in others:
        if other not in op.control_inputs:
            raise ConfigError(mismatch("remove_control_inputs", "cops", other.name, f"control inputs of {op.name}"))
    set_control_inputs(op, [kept for kept in op.control_inputs if kept not in others])
