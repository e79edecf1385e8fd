"""Wrappers that split the work: tensors into shards, or the list of tensors by size.

Shards spread one large tensor over several links or threads. They cost two more passes over the memory and M times the
operations, so few are best. Small tensors cost by the number of messages, large ones by the bytes, so different
algorithms are best for them.
"""

import math
from collections.abc import Sequence

from tpack.errors import ReductionError
from tpack.reduction.algorithms.launch_order import one_launch_order
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.chunking import cut_column, join_column
from tpack.reduction.spec import NO_LIMIT, check_limits
from tpack.tower.grads import Column, ReduceOp, common_shape, static_bytes
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class ShardingReducer(ReducerWrapper):
    """A wrapper that splits dense tensors into ``num_shards`` vectors of nearly one size.

    A tensor with fewer elements gives one shard per element. Sparse gradients are not split.

    Args:
        inner: reduces the shards.
        num_shards: the number of shards per tensor.

    Raises:
        ConfigError: ``num_shards`` is not a positive whole number.

    Source:
        The shards in the all-reduce spec of TensorFlow's ``MultiWorkerAllReduce``.
    """

    def __init__(self, inner: Reducer, num_shards: int) -> None:
        check_count(self, "num_shards", num_shards)
        super().__init__(inner, "sharded")
        self._num_shards = num_shards

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the shards of all columns together."""
        shards = [cut_column(column, self._num_shards) for column in columns]
        reduced = iter(self.inner.reduce_columns([shard for cut in shards for shard in cut], op))
        return [join_column([next(reduced) for _ in cut], column) for cut, column in zip(shards, columns, strict=True)]


@check_arguments
class SplitBySizeReducer(Reducer):
    """A reducer that passes each tensor to the first of several reducers whose byte limit it does not exceed.

    Sparse gradients, whose size is known only at run time, go to the last reducer.

    Args:
        reducers: pairs of a reducer and the size in bytes of its largest tensor; the limits rise, and the last is -1,
            for no limit.

    Raises:
        ConfigError: There is no pair, or the limits do not rise to a last one of -1.

    Source:
        The all-reduce spec of TensorFlow's ``MultiWorkerAllReduce``, which returns the tensors in another order.
    """

    name = "by_size"

    def __init__(self, reducers: Sequence[tuple[Reducer, int]]) -> None:
        check_limits([limit for _, limit in reducers])
        self._reducers = list(reducers)
        self.is_linear = all(reducer.is_linear for reducer, _ in reducers)

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse columns of unknown size, and those that their reducer refuses."""
        for reducer, positions in self._positions(columns):
            reducer.check([columns[n] for n in positions])

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce each column with its reducer."""
        reduced: dict[int, Column] = {}
        with one_launch_order():
            for reducer, positions in self._positions(columns):
                results = reducer.reduce_columns([columns[n] for n in positions], op)
                reduced.update(zip(positions, results, strict=True))
        return [reduced[n] for n in range(len(columns))]

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce with the last reducer."""
        return self._reducers[-1][0].reduce_sparse(columns, op)

    def _positions(self, columns: Sequence[Column]) -> list[tuple[Reducer, list[int]]]:
        """Return the reducers that have columns, each with the positions of its columns."""
        limits = [limit for _, limit in self._reducers]
        positions: list[list[int]] = [[] for _ in limits]
        for n, column in enumerate(columns):
            positions[_entry_for(column, limits)].append(n)
        return [(reducer, own) for (reducer, _), own in zip(self._reducers, positions, strict=True) if own]


def _entry_for(column: Column, limits: Sequence[int]) -> int:
    """Return the position of the first limit that a column's tensors do not exceed."""
    if len(limits) == 1:
        return 0
    size_bytes = static_bytes(column)
    if size_bytes == math.inf:
        shape = common_shape(column)
        raise ReductionError(f"SplitBySizeReducer got {column[0].name} of shape {shape}: expected a known shape")
    return next(i for i, limit in enumerate(limits) if limit == NO_LIMIT or size_bytes <= limit)
