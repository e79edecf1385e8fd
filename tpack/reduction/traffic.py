"""Count what a reduction moves between devices, from its graph.

A tensor travels to each device that reads it once, however many operations there do. So the bytes of any reducer,
wrapped and composed as it may be, can be counted before anything runs, and compared with the formulas of `cost_model`.
Operations that talk to each other at run time, collectives and NCCL, have no edges in the graph and count nothing.

What each algorithm has to move, by formula, and the least that any could: to be set beside measured times.

The model is the textbook's. K devices, each with links that send and receive at the same time, one message each way in
a step. A gradient of ``size_bytes`` goes in, the sum goes to every device. Where algorithms give each gradient to
another device in turn, the cost is that for many gradients of equal size, ``size_bytes`` together. Between CPU devices
of one process transfers share memory and cost nothing, so times there follow the memory traffic instead.

`traffic` counts the bytes of a given graph, packers and all; here is what the count should come to.
"""

import math
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


class ReductionCost(NamedTuple):
    """The cost of one all-reduce.

    Attributes:
        bytes_moved: what the busiest device receives, or sends where that is more.
        latency_steps: how many steps of one message follow each other.
    """

    bytes_moved: float
    latency_steps: int


def lower_bound(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the least bytes, 2(K-1)/K of the data, and the fewest steps, log2(K) rounded up.

    No algorithm reaches both at once.

    Source:
        Patarasuk and Yuan, 2009 for the bytes; Chan et al., "Collective communication: theory, practice, and
        experience", 2007, for the steps.
    """
    return ReductionCost(_least_bytes(num_towers, size_bytes), (num_towers - 1).bit_length())


def ring_cost(num_towers: int, size_bytes: float, num_subchunks: int = 1) -> ReductionCost:
    """Return the cost of ``xring``, and of TensorFlow's own collective operations: the least bytes, the most steps.

    Sub-chunks make the steps more and smaller, so that they overlap with the additions.
    """
    return ReductionCost(_least_bytes(num_towers, size_bytes), 2 * (num_towers - 1) * num_subchunks)


def halving_doubling_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of ``rechd``: the least bytes, and twice the fewest steps."""
    return ReductionCost(_least_bytes(num_towers, size_bytes), 2 * (num_towers - 1).bit_length())


def shuffle_cost(num_towers: int, size_bytes: float, num_shards: int | None = None) -> ReductionCost:
    """Return the cost of ``psgpu``: the least bytes if the towers' devices have the same number of shards each."""
    shard_bytes = size_bytes / (num_shards or num_towers)
    own = math.ceil((num_shards or num_towers) / num_towers)
    received = (num_towers - 1) * own + (num_shards or num_towers) - own
    return ReductionCost(received * shard_bytes, 2 * (num_towers - 1) * own)


def server_shuffle_cost(
    num_towers: int, size_bytes: float, num_servers: int, num_shards: int | None = None
) -> ReductionCost:
    """Return the cost of ``pscpu``, where the shards are summed on ``num_servers`` devices that no tower is on."""
    num_shards = num_shards or num_servers
    messages = max(num_shards, num_towers * math.ceil(num_shards / num_servers))
    return ReductionCost(messages * size_bytes / num_shards, 2 * messages)


def one_device_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of ``one_device``: one device receives and sends everything."""
    return ReductionCost((num_towers - 1) * size_bytes, 2 * (num_towers - 1))


def round_robin_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of ``round_robin``: that of one device for each gradient, shared among all devices."""
    return ReductionCost(_least_bytes(num_towers, size_bytes), 2 * (num_towers - 1))


def hierarchical_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of ``hierarchical``: half the towers gather, two messages cross, half the towers get copies."""
    return ReductionCost(_least_bytes(num_towers, size_bytes), num_towers)


def _least_bytes(num_towers: int, size_bytes: float) -> float:
    return 2 * (num_towers - 1) / num_towers * size_bytes
