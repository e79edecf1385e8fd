"""Reduce gradients in buckets while the backward pass still runs.

A bucket holds whole gradients that become ready one after the other. Once its last member is ready it is joined,
reduced and split, overlapping with the rest of the backward pass. Small buckets start early but pay the fixed cost of a
reduction more often; large ones start late.

The order in which gradients become ready is unknown before the run. The default guess: the backward pass visits layers
in the reverse order of their creation.
"""

from collections.abc import Callable, Sequence

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.wrappers.packers import Groups, TensorPacker, TensorPackingReducer
from tpack.tower.grads import Column, Gradient, static_bytes
from tpack.utils.validation import check_arguments, check_count

ReadyOrder = Callable[[Sequence[Gradient]], Sequence[int]]
"""Takes the N gradients of a tower and returns their indices, the first to become ready first."""


def last_created_first(grads: Sequence[Gradient]) -> list[int]:
    """Return the reverse of the list's order, in which variables were created."""
    return list(range(len(grads)))[::-1]


@check_arguments
class BucketPacker(TensorPacker):
    """A packer of gradients of one dtype into vectors of up to ``bucket_bytes``, in the order of their readiness.

    Gradients are never cut: one larger than a bucket, or of unknown size, is its own bucket. The packs are in reverse
    order, the first to become ready last, because reducers begin there.

    Args:
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: returns the order of the gradients, given those of the first tower.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.
    """

    def __init__(self, bucket_bytes: int, ready_order: ReadyOrder = last_created_first) -> None:
        check_count(self, "bucket_bytes", bucket_bytes)
        super().__init__()
        self._bucket_bytes = bucket_bytes
        self._ready_order = ready_order

    def group(self, columns: Sequence[Column]) -> Groups:
        """Return the buckets; refuse a ``ready_order`` that does not hold each column once."""
        order = list(self._ready_order([column[0] for column in columns]))
        if sorted(order) != list(range(len(columns))):
            raise ReductionError(f"ready_order returned {order}: expected {len(columns)} gradients, each once")
        buckets: list[list[int]] = []
        # One bucket per dtype is open, so that gradients of other dtypes in between do not end it.
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


@check_arguments
class BucketReducer(TensorPackingReducer):
    """A wrapper that reduces each bucket of dense gradients on its own, as soon as it is full.

    All algorithms reduce each tensor by itself. Those that launch operations in a fixed order (collective operations,
    NCCL) take the buckets in the order in which they become ready. An inner reducer that packs defeats the overlap.

    Args:
        inner: reduces the buckets.
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: returns the order in which gradients become ready, by default the reverse of the list's.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.

    Example:
        ::

            reducer = BucketReducer(RoundRobinReducer(), 4 * 2**20)

    Source:
        A to-do of the seed's ``cross_tower_ops``; PyTorch's ``DistributedDataParallel`` works like this.
    """

    def __init__(self, inner: Reducer, bucket_bytes: int, *, ready_order: ReadyOrder = last_created_first) -> None:
        super().__init__(inner, "buckets", BucketPacker(bucket_bytes, ready_order))
