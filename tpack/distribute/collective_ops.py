"""Cross-tower operations with TensorFlow's collective operations."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.errors import ConfigError
from tpack.reduction.algorithms.collective import PROCESS_KEYS, CollectiveKeys, CollectiveReducer
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import ReduceOp


class CollectiveAllReduce(ReducerCrossTowerOps):
    """Reduce with one collective operation per tower and tensor, where values end on the devices they come from.

    See `ReducerCrossTowerOps` for the others. ``IndexedSlices`` are concatenated on one device. Each device of a value
    is another one.

    Args:
        num_workers: how many processes take part; here only 1.
        num_gpus_per_worker: how many devices values have; 0 if that is not known.
        all_reduce_merge_scope: so many consecutive tensors are reduced under one name scope, ``allreduce``.
        collective_keys: hands out the integers by which the operations find each other; by default the process's own.
            Two that are used in one session must not hand out the same ones.

    Raises:
        ConfigError: A number is out of range.

    Source:
        The class of this name in the seed's ``cross_tower_ops``, which refuses ``IndexedSlices``.
    """

    def __init__(
        self,
        num_workers: int = 1,
        num_gpus_per_worker: int = 0,
        all_reduce_merge_scope: int = 32,
        collective_keys: CollectiveKeys | None = None,
    ) -> None:
        if num_workers != 1:
            raise ConfigError(f"CollectiveAllReduce reduces inside one process: wanted 1 worker, got {num_workers}")
        if num_gpus_per_worker < 0:
            raise ConfigError(f"wanted 0 GPUs per worker or more, got {num_gpus_per_worker}")
        if all_reduce_merge_scope < 1:
            raise ConfigError(f"wanted an all_reduce_merge_scope of 1 or more, got {all_reduce_merge_scope}")
        super().__init__(CollectiveReducer(keys=PROCESS_KEYS if collective_keys is None else collective_keys))
        self._num_gpus = num_gpus_per_worker
        self._merge_scope = all_reduce_merge_scope

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        if self._num_gpus not in (0, len(devices)):
            raise ConfigError(
                f"made for values of {self._num_gpus} device(s), got those of {len(devices)}: {', '.join(devices)}"
            )
        return self._reducer

    def _reduce_towers(
        self, reducer: Reducer, towers: Sequence[Sequence[Any]], op: ReduceOp
    ) -> Sequence[Sequence[Any]]:
        # The last ones first, as collective operations are launched in one order from the last tensor on.
        starts = range(0, len(towers[0]), self._merge_scope)
        reduced: list[list[Any]] = [[] for _ in towers]
        for start in reversed(starts):
            chunk = [tower[start : start + self._merge_scope] for tower in towers]
            with tf.name_scope("allreduce"):
                results = reducer.reduce(chunk, op)
            reduced = [[*result, *later] for result, later in zip(results, reduced, strict=True)]
        return reduced
