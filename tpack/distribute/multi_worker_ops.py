"""Cross-tower operations across the workers of a cluster, by an all-reduce spec."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.packing import Packing
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.names import make_reducer
from tpack.reduction.spec import parse_all_reduce_spec
from tpack.reduction.wrappers.by_size import SplitBySizeReducer
from tpack.tower.devices import canonical_device

DEFAULT_SPEC = ("pscpu/pscpu", 2, -1)


class MultiWorkerAllReduce(ReducerCrossTowerOps):
    """Reduce inside each worker and across the workers, with another algorithm for each range of sizes.

    Every worker has the same number of towers. The tensors of one range of sizes are packed together, in the ways of
    `AllReduceCrossTowerOps`. Results are in the order of the values, whatever their sizes; shapes need to be known only
    where there are several ranges.

    Args:
        worker_devices: the devices of the workers, such as ``"/job:worker/task:1"``.
        num_gpus_per_worker: how many towers each of them has; 0 for one, on its CPU.
        all_reduce_spec: see `parse_all_reduce_spec`.
        num_packs: as for `AllReduceCrossTowerOps`.
        agg_small_grads_max_bytes: as for `AllReduceCrossTowerOps`.
        agg_small_grads_max_group: as for `AllReduceCrossTowerOps`.

    Raises:
        ConfigError: There is no worker or one twice, a number is negative, or the spec cannot be read.

    Source:
        The class of this name in the seed's ``cross_tower_ops``.
    """

    def __init__(
        self,
        worker_devices: Sequence[str],
        num_gpus_per_worker: int,
        all_reduce_spec: Any = DEFAULT_SPEC,
        num_packs: int = 0,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        workers = [] if isinstance(worker_devices, str) else [_task_of(device) for device in worker_devices]
        if not workers or len(set(workers)) < len(workers):
            raise ConfigError(f"wanted a list of the devices of different workers, got {worker_devices!r}")
        if num_gpus_per_worker < 0:
            raise ConfigError(f"wanted 0 GPUs per worker or more, got {num_gpus_per_worker}")
        self._workers = workers
        self._towers_per_worker = max(num_gpus_per_worker, 1)
        self._spec = parse_all_reduce_spec(all_reduce_spec)
        self._packing = Packing(num_packs, agg_small_grads_max_bytes, agg_small_grads_max_group)

    @property
    def name(self) -> str:
        """What reduces, for logs."""
        return ":".join(entry.algorithm for entry in self._spec)

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        towers = Counter(map(_task_of, devices))
        if towers != Counter(dict.fromkeys(self._workers, self._towers_per_worker)):
            raise ReductionError(
                f"wanted values of {self._towers_per_worker} device(s) on each of {len(self._workers)} worker(s), got "
                f"those of {', '.join(devices)}"
            )
        reducers = [
            (self._packing.wrap(make_reducer(entry.algorithm, devices, entry.num_shards)), entry.byte_limit)
            for entry in self._spec
        ]
        return reducers[0][0] if len(reducers) == 1 else SplitBySizeReducer(reducers)


def _task_of(device: str) -> tuple[str, int, int]:
    """Return the job, replica and task of a device, of which those not named are the process itself."""
    spec = tf.DeviceSpec.from_string(canonical_device(device))
    return spec.job or "localhost", spec.replica or 0, spec.task or 0
