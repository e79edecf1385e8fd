"""Reduce by exchanging halves: in pairs, then pairs of pairs, and so on.

In the first step, the towers of a pair exchange halves of their vectors: one sums the lower, the other the upper half.
In the next step each repeats this with the part it kept and a tower of the next pair, twice as far away. After log2(K)
steps each tower has the total of its own K-th part; the same steps backwards, joining parts instead of cutting, give
every tower the whole. The nearest towers, which usually have the fastest links, exchange the most.

Cost of D bytes: each tower sends and receives D/2 + D/4 + ... twice, 2(K-1)/K * D bytes, the least of any all-reduce,
as in a ring, in only 2 * log2(K) steps of one message each. But every step cuts and joins vectors in memory, about
4 * D bytes per tower: choose it where latency dominates, and not between CPU devices of one process.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.chunking import cut, flatten_column, join_column
from tpack.reduction.sums import add_pair, divide, on_device_of
from tpack.tower.grads import Column, ReduceOp


class HalvingDoublingReducer(Reducer):
    """A reducer by recursive halving and doubling, for a number of towers that is a power of two.

    N gradients take about ``8 * N * K * log2(K)`` operations, 30,912 for the 161 gradients of a ResNet-50 on 8
    towers: wrap it in `GradientPackingReducer`, or another reducer that packs.

    Source:
        Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005;
        ``"rechd"`` of the seed's all-reduce specs.
    """

    name = "rechd"

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse a number of towers that is not a power of two."""
        num_towers = len(columns[0])
        if num_towers & (num_towers - 1):
            raise ReductionError(f"HalvingDoublingReducer got {num_towers} towers: expected a power of two")

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Halve and double each column on its own."""
        return [_reduce_column(column, op) for column in columns]


def _reduce_column(column: Column, op: ReduceOp) -> Column:
    divisor = op.divisor(len(column))
    distances = [1 << step for step in range(len(column).bit_length() - 1)]
    parts = flatten_column(column)
    for distance in distances:
        parts = _halve(parts, distance)
    for k, part in enumerate(parts):
        with on_device_of(column[k]):
            parts[k] = divide(part, divisor)
    for distance in reversed(distances):
        parts = _double(parts, distance)
    return join_column([parts], column)


def _halve(parts: Sequence[Column], distance: int) -> list[Column]:
    """Exchange halves with the tower at ``distance``; of the two, the nearer to tower 0 keeps the lower sum."""
    halves = []
    for part in parts:
        with on_device_of(part):
            halves.append(cut(part, 2))
    sums = []
    for k, part in enumerate(parts):
        kept = int(k & distance > 0)
        with on_device_of(part):
            sums.append(add_pair(halves[k][kept], halves[k ^ distance][kept]))
    return sums


def _double(parts: Sequence[Column], distance: int) -> list[Column]:
    """Join the part of each tower with that of the tower at ``distance``, in the order of the cut."""
    joined = []
    for k, part in enumerate(parts):
        lower, upper = k & ~distance, k | distance
        with on_device_of(part):
            joined.append(tf.concat([parts[lower], parts[upper]], axis=0))
    return joined
