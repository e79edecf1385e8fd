"""Reduce gradients in buckets while the backward pass still runs.

A bucket holds whole gradients that become ready one after the other, and depends on nothing else: as soon as its last
member is ready it is joined, reduced and taken apart, and the time of that hides behind the rest of the backward pass.
Small buckets start early and cost the fixed time of a reduction more often; large ones start late.

In which order the gradients of a tower become ready during the backward pass.

Nobody knows it before the graph runs, but there are two good guesses: the backward pass visits layers in the reverse
order of their creation, and an operation behind a longer chain of others runs later.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Column, Reducer
from tpack.reduction.slicing import static_bytes
from tpack.reduction.wrappers.packers import TensorPacker, TensorPackingReducer

ReadyOrder = Callable[[Sequence[Any]], Sequence[int]]
"""Takes the N gradients of a tower and returns their indices, the first to become ready first."""


def last_created_first(grads: Sequence[Any]) -> list[int]:
    """Return the reverse of the list's order, which is the order in which variables were created."""
    return list(range(len(grads)))[::-1]


class BucketPacker(TensorPacker):
    """Pack gradients of one dtype into vectors of up to ``bucket_bytes``, in the order in which they become ready.

    A gradient is never cut: one that is larger than a bucket, or of unknown size, is a bucket of its own. The packs are
    in reverse order, the first to become ready last, because that is where reducers begin.

    Args:
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: tells the order of the gradients from those of the first tower.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.
    """

    def __init__(self, bucket_bytes: int, ready_order: ReadyOrder = last_created_first) -> None:
        if bucket_bytes < 1:
            raise ConfigError(f"wanted buckets of 1 byte or more, got {bucket_bytes}")
        super().__init__()
        self._bucket_bytes = bucket_bytes
        self._ready_order = ready_order

    def _group(self, columns: Sequence[Column]) -> list[list[int]]:
        order = list(self._ready_order([column[0] for column in columns]))
        if sorted(order) != list(range(len(columns))):
            raise ReductionError(f"wanted an order of {len(columns)} gradients, each once, got {order}")
        buckets: list[list[int]] = []
        # One bucket of each dtype is open, so that gradients of other dtypes in between do not end it.
        opened: dict[str, list[int]] = {}
        for n in order:
            dtype = columns[n][0].dtype.base_dtype.name
            size = sum(static_bytes(columns[m]) for m in [*opened.get(dtype, ()), n])
            if dtype in opened and size <= self._bucket_bytes:
                opened[dtype].append(n)
            else:
                opened[dtype] = [n]
                buckets.append(opened[dtype])
        # A bucket is ready when its last member is.
        return sorted(buckets, key=lambda bucket: order.index(bucket[-1]), reverse=True)


class BucketReducer(TensorPackingReducer):
    """Reduce each bucket of dense gradients on its own, as soon as it is full.

    That holds with an inner reducer that treats each tensor by itself, which all algorithms do. One that launches its
    operations in a fixed order (collective operations, NCCL) takes the buckets in the order in which they become
    ready. An inner reducer that packs undoes it.

    Args:
        inner: what reduces the buckets.
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: tells the order in which gradients become ready: by default the reverse of the list's, or
            `shallowest_first` for the order of depth in the graph.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.

    Example:
        ::

            reducer = BucketReducer(RoundRobinReducer(), 4 * 2**20)

    Source:
        The seed's ``cross_tower_ops`` names it as work to do; PyTorch's ``DistributedDataParallel`` works like this.
    """

    def __init__(self, inner: Reducer, bucket_bytes: int, *, ready_order: ReadyOrder = last_created_first) -> None:
        super().__init__(inner, "buckets", functools.partial(BucketPacker, bucket_bytes, ready_order))


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
