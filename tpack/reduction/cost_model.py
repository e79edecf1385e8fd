"""What each algorithm has to move, by formula, and the least that any could: to be set beside measured times.

The model is the textbook's. K devices, each with links that send and receive at the same time, one message each way in
a step. A gradient of ``size_bytes`` goes in, the sum goes to every device. Where algorithms give each gradient to
another device in turn, the cost is that for many gradients of equal size, ``size_bytes`` together. Between CPU devices
of one process transfers share memory and cost nothing, so times there follow the memory traffic instead.

`traffic` counts the bytes of a given graph, packers and all; here is what the count should come to.
"""

import math
from typing import NamedTuple


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
