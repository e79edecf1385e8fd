"""Count what a reduction moves between devices, from its graph.

A tensor travels to each device that reads it once, however many operations there do. So the bytes of any reducer,
wrapped and composed as it may be, can be counted before anything runs. Operations that talk to each other at run time,
collectives and NCCL, have no edges in the graph and count nothing; what those move says `ring_cost`. Between CPU
devices of one process transfers share memory and cost nothing, so times there follow the memory traffic instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.tower.grads import Gradient, gradient_parts
from tpack.utils.validation import check_arguments


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


@check_arguments
def count_traffic(tower_grads: Sequence[Sequence[Gradient]], reduced: Sequence[Sequence[Gradient]]) -> TrafficReport:
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
    moved: dict[tuple[str, str], tf.Tensor] = {}
    chains = dict.fromkeys(sources, 0)
    for operation in _in_order([part.op for part in _parts(reduced)], sources):
        chains[operation] = 0
        for tensor in operation.inputs:
            is_transfer = tensor.device != operation.device
            if is_transfer:
                moved[tensor.name, operation.device] = tensor
            chains[operation] = max(chains[operation], chains[tensor.op] + is_transfer)
    return TrafficReport(_by_device(moved), len(moved), max(chains.values(), default=0))


def _in_order(operations: Sequence[tf.Operation], known: set[tf.Operation]) -> Iterator[tf.Operation]:
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


def _by_device(moved: Mapping[tuple[str, str], tf.Tensor]) -> dict[str, Traffic]:
    """Return the bytes by device of tensors, which come by name and by the device they move to."""
    devices: dict[str, Traffic] = {}
    for (_, destination), tensor in moved.items():
        size = tensor.shape.num_elements()
        if size is None:
            raise ReductionError(f"the bytes of {tensor.name} cannot be counted: its shape {tensor.shape} is not known")
        size_bytes = size * tensor.dtype.size
        source, target = (devices.get(device, Traffic()) for device in (tensor.device, destination))
        devices[tensor.device] = source._replace(sent=source.sent + size_bytes)
        devices[destination] = target._replace(received=target.received + size_bytes)
    return devices


def _parts(towers: Sequence[Sequence[Gradient]]) -> list[tf.Tensor]:
    return [part for tower in towers for grad in tower for part in gradient_parts(grad)]


class ReductionCost(NamedTuple):
    """The cost of one all-reduce between devices whose links send and receive at the same time.

    Attributes:
        bytes_moved: what the busiest device receives, or sends where that is more.
        latency_steps: how many steps of one message follow each other.
    """

    bytes_moved: float
    latency_steps: int


def ring_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of a ring: the least bytes that any all-reduce can move, and the most steps.

    TensorFlow's own collective operations are a ring between CPU devices.

    Source:
        Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    return ReductionCost(2 * (num_towers - 1) / num_towers * size_bytes, 2 * (num_towers - 1))
