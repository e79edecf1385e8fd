"""Parameter-server shuffle on the processors of the machines where the gradients are.

`ShuffleReducer` is told its devices. Here they follow from the gradients of each reduction, so that one reducer can
serve every worker inside a composition, each on its own processor.
"""

from collections.abc import Sequence

from tpack.reduction.algorithms.shuffle import ShuffleReducer, task_cpus
from tpack.reduction.base import Column, ReduceOp, Reducer


class CpuShuffleReducer(Reducer):
    """Sum shards of every gradient on the first CPU device of each task that has one of the gradients.

    Args:
        num_shards: into how many shards a gradient is cut; by default one for each task.

    Raises:
        ConfigError: ``num_shards`` is not a positive whole number.

    Source:
        ``"pscpu"`` of the seed's all-reduce specs, after tensorflow/benchmarks.
    """

    name = "pscpu"

    def __init__(self, num_shards: int | None = None) -> None:
        ShuffleReducer(num_shards=num_shards)
        self._num_shards = num_shards

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        if not columns:
            return []
        cpus = task_cpus([tensor.device for column in columns for tensor in column])
        return ShuffleReducer(cpus, self._num_shards)._reduce_dense(columns, op)
