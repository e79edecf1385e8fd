"""Whether operations compute the same in two graphs, whatever names things have there."""

from collections import Counter
from hashlib import sha256
from typing import Any

import tensorflow.compat.v1 as tf

_NAMES = frozenset({"_class", "_gradient_op_type", "container", "debug_name", "shared_name"})


def structure(operation: Any) -> Counter[str]:
    """Return how often there is each kind of operation among those that one needs, itself included.

    Operations are of one kind if they have the same type, device and attributes, and the operations before them, by
    inputs and by control inputs, are of the same kinds.
    """
    kinds: dict[Any, str] = {}

    def kind(op: Any) -> str:
        if op not in kinds:
            inputs = [(kind(tensor.op), tensor.value_index) for tensor in op.inputs]
            text = repr((op.type, _place(op), _attributes(op), inputs, sorted(map(kind, op.control_inputs))))
            kinds[op] = sha256(text.encode()).hexdigest()
        return kinds[op]

    kind(operation)
    return Counter(kinds.values())


def _attributes(op: Any) -> list[tuple[str, str]]:
    return sorted((key, str(value)) for key, value in op.node_def.attr.items() if key not in _NAMES)


def _place(op: Any) -> str:
    """Return the device that an operation asks for by itself, or else by what it is colocated with or reads."""
    named = (op.graph.get_operation_by_name(group[len("loc:@") :].decode()) for group in op.colocation_groups())
    others = [other for other in named if other is not op]
    others += [tensor.op for tensor in op.inputs if tensor.dtype == tf.resource]
    return op.device or (_place(others[0]) if others else "")
