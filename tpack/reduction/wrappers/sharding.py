"""Split every tensor into shards and reduce them side by side with any reducer.

One large tensor is then as much work for several links or threads at once as several smaller ones. It costs two more
passes over the memory and M times the operations, so few shards are best. Algorithms that split tensors by themselves,
the ring and the shuffle, take a number of shards instead.
"""

from collections.abc import Sequence

from tpack.errors import ConfigError
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.slicing import cut_column, join_column


class ShardingReducer(Reducer):
    """Split dense tensors into ``num_shards`` vectors of nearly one size, reduce those, and join the results.

    A tensor with fewer elements than that gives one shard for each. Sparse gradients are not split.

    Args:
        inner: what reduces the shards.
        num_shards: into how many parts each tensor goes.

    Raises:
        ConfigError: ``num_shards`` is not a positive whole number.

    Source:
        The shards in the all-reduce spec of TensorFlow's ``MultiWorkerAllReduce``.
    """

    def __init__(self, inner: Reducer, num_shards: int) -> None:
        if not isinstance(num_shards, int) or num_shards < 1:
            raise ConfigError(f"wanted 1 shard or more, got {num_shards!r}")
        self._inner = inner
        self._num_shards = num_shards
        self.name = f"sharded_{inner.name}"

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self._inner._check_dense(columns)

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        if not columns:
            return []
        shards = [cut_column(column, self._num_shards) for column in columns]
        towers = zip(*(pieces for shard in shards for pieces in shard), strict=True)
        reduced = iter(zip(*self._inner.reduce(list(towers), op), strict=True))
        return [
            join_column([next(reduced) for _ in shard], column) for shard, column in zip(shards, columns, strict=True)
        ]

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        return self._inner._reduce_sparse(columns, op)
