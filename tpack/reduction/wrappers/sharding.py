"""Split every tensor into shards that any reducer reduces side by side.

Shards spread one large tensor over several links or threads. They cost two more passes over the memory and M times the
operations, so few are best. Algorithms that split tensors themselves, the ring and the shuffle, take a number of
shards instead.
"""

from collections.abc import Sequence

from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.chunking import cut_column, join_column
from tpack.tower.grads import Column, ReduceOp
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
