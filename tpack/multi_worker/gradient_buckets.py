"""Buckets of small gradients, and pieces of large ones, for an exchange between workers.

A message costs about as much as a megabyte, whatever its size, so small gradients are joined. Joining and splitting
cost as much as the network, so large gradients are buckets by themselves, and pieces of them share their memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import tensorflow.compat.v1 as tf

from tpack.graph_copy import op_kinds
from tpack.reduction.sums import on_device
from tpack.tower.grads import Gradient, gradient_values, is_sparse
from tpack.tower.per_graph import PerGraph

BUCKET_BYTES = 4 * 2**20
MAX_BUCKETS = 8
PIECE_BYTES = 8 * 2**20
"""Larger buckets are cut, so that several connections carry them, and a piece is added while the next one travels."""

DIRECT_BYTES = 2**19
"""The extra bytes that a worker may send to save one hop."""

_ALIGNED_BYTES = 64
"""Slices that begin and end at multiples of it need no copy."""


_exchanged: PerGraph[list[str]] = PerGraph(list)


def exchanged_here() -> list[str]:
    """Return what the current graph exchanges with other workers, in the order in which the workers pair it."""
    return list(_exchanged.here())


def note_exchanged(grad: Gradient, name: str, place: str = "") -> None:
    """Add a gradient to what `exchanged_here` returns."""
    values = gradient_values(grad)
    kind = f"rows of {values.shape[1:]}" if is_sparse(grad) else f"{values.shape}"
    _exchanged.here().append(f"{name} {values.dtype.base_dtype.name} {kind} {place}".strip())


def creation_order(grads: Sequence[Gradient]) -> list[int]:
    """Return the indices of gradients in the order of creation of their operations, that of a backward pass."""
    graph = tf.get_default_graph()
    place = {operation.name: number for number, operation in enumerate(graph.get_operations())}
    return sorted(range(len(grads)), key=lambda n: place[gradient_values(grads[n]).op.name])


def plan_buckets(grads: Sequence[Gradient], order: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Divide dense gradients into buckets: large ones alone, the others of each dtype with their neighbours.

    Args:
        grads: N gradients.
        order: their indices, the first to become ready first.
        bucket_bytes: the size from which a gradient is a bucket of its own. The others are divided into buckets of
            about this size, at most `MAX_BUCKETS` for a dtype.

    Returns:
        The indices in each bucket, in the order in which the buckets are ready.
    """
    buckets = []
    joined: dict[tf.DType, list[int]] = {}
    for n in (n for n in order if not is_sparse(grads[n])):
        if _size_bytes(grads[n]) >= bucket_bytes:
            buckets.append([n])
        else:
            joined.setdefault(grads[n].dtype.base_dtype, []).append(n)
    place = {n: position for position, n in enumerate(order)}
    buckets += [bucket for members in joined.values() for bucket in _divided(grads, members, bucket_bytes)]
    return sorted(buckets, key=lambda bucket: place[bucket[-1]])


def plan_exchange(
    grads: Sequence[Gradient],
    order: Sequence[int],
    bucket_bytes: int,
    takes: Callable[[Sequence[int]], bool] | None = None,
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the buckets of dense gradients that travel as they are, and of those that travel encoded: their indices.

    Args:
        grads: N gradients; of dense ones only shape and dtype count, so that ``tf.TensorSpec`` serves as well.
        order: their indices, the first to become ready first.
        bucket_bytes: see `plan_buckets`.
        takes: returns whether those of a shape are encoded; None encodes nothing.
    """
    encoded = [n for n in order if takes is not None and _is_encoded(grads[n], takes)]
    plain = [n for n in order if n not in set(encoded)]
    return plan_buckets(grads, plain, bucket_bytes), plan_buckets(grads, encoded, bucket_bytes)


def _is_encoded(grad: Gradient, takes: Callable[[Sequence[int]], bool]) -> bool:
    return not is_sparse(grad) and grad.dtype.is_floating and takes(grad.shape.as_list())


def _size_bytes(grad: tf.Tensor) -> int:
    return int(grad.shape.num_elements()) * int(grad.dtype.size)


def _divided(grads: Sequence[Gradient], members: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    sizes = [_size_bytes(grads[n]) for n in members]
    total = sum(sizes)
    count = min(MAX_BUCKETS, max(1, math.ceil(total / bucket_bytes)))
    buckets: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for n, size in zip(members, sizes, strict=True):
        # A gradient goes where its middle lies.
        index = int((before + size / 2) * count / total) if total else 0
        buckets[min(index, count - 1)].append(n)
        before += size
    return [bucket for bucket in buckets if bucket]


@dataclass(frozen=True)
class Route:
    """Route of a bucket between W workers.

    Attributes:
        is_direct: each worker sends all of it to all others, and each adds for itself; otherwise each worker adds a
            part.
        num_chunks: the number of pieces, or sets of W parts, that are exchanged side by side.
    """

    is_direct: bool
    num_chunks: int

    @staticmethod
    def of_bucket(size_bytes: int, workers: int) -> "Route":
        """Choose the route of a bucket.

        Directly, a worker sends W - 1 times the bucket in one hop; in parts, 2 (W - 1) / W times in two. So two workers
        always go directly, and more do with small buckets.

        Args:
            size_bytes: its size on the network.
            workers: W.
        """
        is_direct = (workers - 1) * (1 - 2 / workers) * size_bytes <= DIRECT_BYTES
        return Route(is_direct, num_pieces(size_bytes, 1 if is_direct else workers))


def num_pieces(size_bytes: int, parts: int) -> int:
    """Return the number of pieces of a bucket, or of sets of parts, of `PIECE_BYTES` each at most."""
    return max(1, math.ceil(size_bytes / (PIECE_BYTES * parts)))


def joined(tensors: Sequence[tf.Tensor], *, is_copied: bool) -> tf.Tensor:
    """Return the numbers of tensors of one dtype in a vector, on the current device.

    Args:
        tensors: of known shapes.
        is_copied: whether those of a single one are copied too: see `variables_change_in_place`.
    """
    vector = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    return tf.raw_ops.DeepCopy(x=vector) if len(tensors) == 1 and is_copied else vector


def variables_change_in_place(graph: tf.Graph) -> bool:
    """Return whether the update of a variable might change a number that waits to be sent.

    TensorFlow 1's variables are updated in place, and a gradient that is the value of another variable shares its
    memory.
    """
    return any(operation.type in op_kinds.REFERENCE_VARIABLES for operation in graph.get_operations())


def parted(vector: tf.Tensor, likes: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Split a vector that `joined` made into tensors of the former shapes, on the current device."""
    counts = [int(like.shape.num_elements()) for like in likes]
    parts = tf.split(vector, counts) if len(likes) > 1 else [vector]
    return [tf.reshape(part, like.shape) for part, like in zip(parts, likes, strict=True)]


def cut(vector: tf.Tensor, count: int, device: str) -> list[tf.Tensor]:
    """Cut a vector into pieces, whose sizes depend on its length and dtype alone.

    Args:
        vector: its length is known.
        count: the number of pieces; the first ones are empty where it is very short.
        device: that of the pieces.
    """
    if count == 1:
        return [vector]
    sizes = cut_sizes(int(vector.shape.num_elements()), int(vector.dtype.size), count)
    with on_device(device):
        return [tf.slice(vector, [start], [size]) for start, size in zip(accumulate([0, *sizes]), sizes, strict=False)]


def cut_sizes(num_elements: int, element_bytes: int, count: int) -> list[int]:
    """Return the elements of each piece into which a vector is cut: see `cut`."""
    unit = max(1, _ALIGNED_BYTES // element_bytes)
    ends = [*(num_elements * index // count // unit * unit for index in range(1, count)), num_elements]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
