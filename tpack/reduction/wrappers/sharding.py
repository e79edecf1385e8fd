"""Split every tensor into shards and reduce them side by side with any reducer.

One large tensor is then as much work for several links or threads at once as several smaller ones. It costs two more
passes over the memory and M times the operations, so few shards are best. Algorithms that split tensors by themselves,
the ring and the shuffle, take a number of shards instead.
"""

from collections.abc import Sequence

from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.chunking import cut_column, join_column
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class ShardingReducer(ReducerWrapper):
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
        check_count(self, "num_shards", num_shards)
        super().__init__(inner, "sharded")
        self._num_shards = num_shards

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the shards of all columns together."""
        shards = [cut_column(column, self._num_shards) for column in columns]
        reduced = iter(self.inner.reduce_columns([shard for cut in shards for shard in cut], op))
        return [join_column([next(reduced) for _ in cut], column) for cut, column in zip(shards, columns, strict=True)]
