"""Count what a reduction moves between devices, from its graph.

A tensor travels to each device that reads it once, however many operations there do. So the bytes of any reducer,
wrapped and composed as it may be, can be counted before anything runs, and compared with the formulas of `cost_model`.
Operations that talk to each other at run time, collectives and NCCL, have no edges in the graph and count nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tpack.errors import ReductionError
from tpack.reduction.gradients import is_sparse


class Traffic(NamedTuple):
    """The bytes that one device receives and sends in one step."""

    received: int = 0
    sent: int = 0


class TrafficReport(NamedTuple):
    """What a reduction moves.

    Attributes:
        devices: the bytes by device, of those devices that receive or send any.
        num_transfers: how many tensors move from one device to another.
        chain_length: how many transfers wait for each other, at most.
    """

    devices: dict[str, Traffic]
    num_transfers: int
    chain_length: int

    @property
    def bytes_moved(self) -> int:
        """What the busiest device receives, or sends where that is more."""
        return max((max(traffic) for traffic in self.devices.values()), default=0)


def count_traffic(tower_grads: Sequence[Sequence[Any]], reduced: Sequence[Sequence[Any]]) -> TrafficReport:
    """Count what moves between devices on the way from gradients to their reduction.

    Args:
        tower_grads: what was given to ``Reducer.reduce``.
        reduced: what it returned.

    Returns:
        The bytes by device, and the number and the longest chain of transfers.

    Shapes:
        tower_grads, reduced: K x N gradients, whose operations are all on devices with a name.

    Raises:
        ReductionError: A tensor that moves has an unknown shape.

    Source:
        The way TensorFlow cuts a graph into one for each device.
    """
    sources = {part.op for part in _parts(tower_grads)}
    moved: set[tuple[Any, str]] = set()
    chains = dict.fromkeys(sources, 0)
    for operation in _in_order([part.op for part in _parts(reduced)], sources):
        chains[operation] = 0
        for tensor in operation.inputs:
            is_transfer = tensor.device != operation.device
            if is_transfer:
                moved.add((tensor.ref(), operation.device))
            chains[operation] = max(chains[operation], chains[tensor.op] + is_transfer)
    return TrafficReport(_by_device(moved), len(moved), max(chains.values(), default=0))


def _in_order(operations: Sequence[Any], known: set[Any]) -> Iterator[Any]:
    """Yield ``operations`` and all before them up to ``known``, each after its inputs.

    Graphs are deeper than Python lets functions call themselves, so the operations on the way are a list.
    """
    done = set(known)
    waiting = list(operations)
    while waiting:
        before = [tensor.op for tensor in waiting[-1].inputs if tensor.op not in done]
        if before and waiting[-1] not in done:
            waiting.extend(before)
            continue
        operation = waiting.pop()
        if operation not in done:
            done.add(operation)
            yield operation


def _by_device(moved: set[tuple[Any, str]]) -> dict[str, Traffic]:
    devices: dict[str, Traffic] = {}
    for reference, destination in moved:
        tensor = reference.deref()
        size = tensor.shape.num_elements()
        if size is None:
            raise ReductionError(f"the bytes of {tensor.name} cannot be counted: its shape {tensor.shape} is not known")
        size_bytes = size * tensor.dtype.size
        source, target = (devices.get(device, Traffic()) for device in (tensor.device, destination))
        devices[tensor.device] = source._replace(sent=source.sent + size_bytes)
        devices[destination] = target._replace(received=target.received + size_bytes)
    return devices


def _parts(towers: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yield the tensors that gradients consist of."""
    for gradient in (grad for tower in towers for grad in tower):
        if is_sparse(gradient):
            yield from (part for part in (gradient.values, gradient.indices, gradient.dense_shape) if part is not None)
        else:
            yield gradient
