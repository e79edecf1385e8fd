"""In which order the gradients of a tower become ready during the backward pass.

Nobody knows it before the graph runs, but there are two good guesses: the backward pass visits layers in the reverse
order of their creation, and an operation behind a longer chain of others runs later.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

ReadyOrder = Callable[[Sequence[Any]], Sequence[int]]
"""Takes the N gradients of a tower and returns their indices, the first to become ready first."""


def last_created_first(grads: Sequence[Any]) -> list[int]:
    """Return the reverse of the list's order, which is the order in which variables were created."""
    return list(range(len(grads)))[::-1]


def shallowest_first(grads: Sequence[Any]) -> list[int]:
    """Return the order of depth in the graph; among gradients of one depth, the last in the list first.

    The depth is the length of the longest chain of operations that must run before. It is right for models whose
    layers are created in another order than they are used, such as those with several branches.
    """
    depths = _depths(grad.op for grad in grads)
    return sorted(last_created_first(grads), key=lambda n: depths[grads[n].op.name])


def _depths(operations: Iterable[Any]) -> dict[str, int]:
    """Return the depth of operations and all those before them, by name; without recursion, as graphs are deep."""
    depths: dict[str, int] = {}
    stack = list(operations)
    while stack:
        operation = stack[-1]
        before = _before(operation)
        missing = [other for other in before if other.name not in depths]
        if missing:
            stack.extend(missing)
        else:
            depths[operation.name] = 1 + max((depths[other.name] for other in before), default=0)
            stack.pop()
    return depths


def _before(operation: Any) -> list[Any]:
    # The only edges that close a cycle are those into the next iteration of a loop.
    if operation.type == "NextIteration":
        return []
    return [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
