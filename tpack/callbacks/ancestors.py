"""What has to run before something in the graph can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def ancestors(targets: Iterable[Any]) -> set[Any]:
    """Return the operations of the targets and all that they depend on, by data or by control.

    Args:
        targets: operations or tensors.
    """
    found: set[Any] = set()
    waiting = [getattr(target, "op", target) for target in targets]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
            waiting.extend(op.control_inputs)
    return found
