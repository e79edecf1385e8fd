"""The communication volume of a reduction, counted in its graph.

A tensor travels once to each device that reads it, however many operations read it there. So the bytes of any reducer,
wrapped or composed, can be counted before a run. Operations that communicate at run time, collectives and NCCL, have no
edges in the graph and count nothing; use `ring_cost` for them. Between CPU devices of one process transfers share
memory and are free, so times there follow the memory traffic instead.
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
    """The transfers of a reduction.

    Attributes:
        devices: the bytes by device, for devices that receive or send any.
        num_transfers: the number of tensors that move between devices.
        chain_length: the longest sequence of dependent transfers.
    """

    devices: dict[str, Traffic]
    num_transfers: int
    chain_length: int

    @property
    def bytes_moved(self) -> int:
        """The bytes that the busiest device receives, or sends if that is more."""
        return max((max(traffic) for traffic in self.devices.values()), default=0)


@check_arguments
def count_traffic(tower_grads: Sequence[Sequence[Gradient]], reduced: Sequence[Sequence[Gradient]]) -> TrafficReport:
    """Count the transfers between devices from gradients to their reduction.

    Args:
        tower_grads: the argument of ``Reducer.reduce``.
        reduced: its result.

    Shapes:
        tower_grads, reduced: K x N gradients, whose operations are all on named devices.

    Raises:
        ReductionError: A tensor that moves has an unknown shape.

    Source:
        The partition of graphs by device in TensorFlow.
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
    """Yield ``operations`` and all before them up to ``known``, each after its inputs."""
    # Without recursion: graphs are deeper than Python's stack.
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
    """Return the bytes by device of tensors, given by name and destination."""
    devices: dict[str, Traffic] = {}
    for (_, destination), tensor in moved.items():
        size = tensor.shape.num_elements()
        if size is None:
            raise ReductionError(f"count_traffic got {tensor.name} of shape {tensor.shape}: expected known shapes")
        size_bytes = size * tensor.dtype.size
        source, target = (devices.get(device, Traffic()) for device in (tensor.device, destination))
        devices[tensor.device] = source._replace(sent=source.sent + size_bytes)
        devices[destination] = target._replace(received=target.received + size_bytes)
    return devices


def _parts(towers: Sequence[Sequence[Gradient]]) -> list[tf.Tensor]:
    return [part for tower in towers for grad in tower for part in gradient_parts(grad)]


class ReductionCost(NamedTuple):
    """The cost of one all-reduce over links that send and receive at the same time.

    Attributes:
        bytes_moved: the bytes that the busiest device receives, or sends if that is more.
        latency_steps: the number of consecutive steps of one message.
    """

    bytes_moved: float
    latency_steps: int


def ring_cost(num_towers: int, size_bytes: float) -> ReductionCost:
    """Return the cost of a ring: the least bytes of any all-reduce, and the most steps.

    TensorFlow's own collective operations are a ring between CPU devices.

    Source:
        Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    return ReductionCost(2 * (num_towers - 1) / num_towers * size_bytes, 2 * (num_towers - 1))
