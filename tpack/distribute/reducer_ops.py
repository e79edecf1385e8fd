"""Cross-tower operations that reduce by a `Reducer`, where values end on the devices that they come from.

`ReducerCrossTowerOps` does so with any. The others choose one for the devices of the values: an all-reduce algorithm by
its name, TensorFlow's collective operations, a spec for the workers of a cluster, or what suits the devices.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.cross_tower_ops import (
    Contributions,
    CrossTowerOps,
    ValueDestinationPairs,
    gather_contributions,
    get_devices_from,
    reduce_on_device,
)
from tpack.distribute.values import Aggregation, Destinations, DistributedValues, Mirrored, TensorOrSlices, reduce_op_of
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import PROCESS_KEYS, CollectiveKeys, CollectiveReducer
from tpack.reduction.algorithms.launch_order import one_launch_order
from tpack.reduction.autotune import topology
from tpack.reduction.base import Reducer
from tpack.reduction.names import check_algorithm, choose_by_heuristic, make_reducer
from tpack.reduction.spec import parse_all_reduce_spec
from tpack.reduction.wrappers.packers import AggregateSmallTensorPackingReducer, ConcatAndSplitPackingReducer
from tpack.reduction.wrappers.splitting import SplitBySizeReducer
from tpack.tower.devices import canonical_device
from tpack.tower.grads import ReduceOp
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_instances, mismatch, shown

_SEED_NAMES = {"hierarchical_copy": "hierarchical"}
DEFAULT_SPEC = ("pscpu/pscpu", 2, -1)


@check_arguments
class ReducerCrossTowerOps(CrossTowerOps):
    """Cross-tower operations by a `Reducer`, for values that end on the devices that they come from.

    Values of the same devices are reduced together, dense ones and ``IndexedSlices``. A value with other destinations
    is reduced on the first of them and copied, since an all-reduce would copy it to needless devices; so is a value
    with several parts on a device (`MapOutput`).

    Source:
        ``AllReduceCrossTowerOps`` of the seed, which reduces one by one as soon as the destinations of two differ, or
        one is sparse.
    """

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    @property
    def name(self) -> str:
        """The reducer, for logs."""
        return self._reducer.name

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        """Return the reducer of values on these devices; a subclass whose reducer depends on them overrides it."""
        del devices
        return self._reducer

    def _reduce(
        self, aggregation: Aggregation, per_device_value: DistributedValues, destinations: Destinations
    ) -> Mirrored:
        return self._batch_reduce(aggregation, [(per_device_value, destinations)])[0]

    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        op = reduce_op_of(aggregation)
        brought = [gather_contributions(value) for value, _ in value_destination_pairs]
        devices = [get_devices_from(destinations) for _, destinations in value_destination_pairs]
        batches: dict[frozenset[str], list[int]] = {}
        results: dict[int, Mirrored] = {}
        for n, (contributions, wanted) in enumerate(zip(brought, devices, strict=True)):
            if contributions.is_plain and contributions.by_device.keys() == set(wanted):
                batches.setdefault(frozenset(wanted), []).append(n)
            else:
                results[n] = self.broadcast(reduce_on_device(contributions, op, wanted[0]), wanted)
        with one_launch_order():
            for positions in batches.values():
                reduced = self._all_reduce([brought[n] for n in positions], op)
                for n, by_device in zip(positions, reduced, strict=True):
                    results[n] = Mirrored({device: by_device[device] for device in devices[n]})
        return [results[n] for n in range(len(brought))]

    def _all_reduce(self, values: Sequence[Contributions], op: ReduceOp) -> list[dict[str, TensorOrSlices]]:
        """Reduce one or more values of the same devices and return the results by device."""
        devices = list(values[0].by_device)
        towers = [[value.by_device[device] for value in values] for device in devices]
        reduced = self._reduce_towers(self._reducer_for(devices), towers, op)
        return [dict(zip(devices, column, strict=True)) for column in zip(*reduced, strict=True)]

    def _reduce_towers(
        self, reducer: Reducer, towers: Sequence[Sequence[TensorOrSlices]], op: ReduceOp
    ) -> Sequence[Sequence[TensorOrSlices]]:
        """Reduce K lists of N tensors, those of list k on device k."""
        return reducer.reduce(towers, op)


@check_arguments
class AllReduceCrossTowerOps(ReducerCrossTowerOps):
    """Cross-tower operations by an all-reduce, for values that end on the devices that they come from.

    Other values are reduced as in `ReducerCrossTowerOps`. With several packings, the first one applies.

    Args:
        all_reduce_alg: ``"nccl"``, ``"hierarchical_copy"``, or another name of `make_reducer`. An algorithm that does
            not support the devices, as NCCL on CPUs, is an error and not replaced.
        num_packs: concatenate all tensors and cut them into this number of packs; 0 for none.
        agg_small_grads_max_bytes: join tensors of up to this size; 0 joins none.
        agg_small_grads_max_group: the most tensors that are joined to one; 0 joins none.

    Raises:
        ConfigError: The algorithm is unknown, or a number is negative.

    Source:
        The seed's ``cross_tower_ops``.
    """

    def __init__(
        self,
        all_reduce_alg: str = "nccl",
        num_packs: int = 1,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        self._algorithm = _SEED_NAMES.get(all_reduce_alg, all_reduce_alg)
        check_algorithm(self._algorithm)
        self._packing = _Packing(num_packs, agg_small_grads_max_bytes, agg_small_grads_max_group)

    @property
    def name(self) -> str:
        """The reducer, for logs."""
        return self._algorithm

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        return self._packing.wrap(make_reducer(self._algorithm, devices))


@check_arguments
class CollectiveAllReduce(ReducerCrossTowerOps):
    """Cross-tower operations by one collective operation per tower and tensor, on different devices.

    Other values are reduced as in `ReducerCrossTowerOps`. ``IndexedSlices`` are concatenated on one device.

    Args:
        num_workers: the number of processes; here only 1.
        num_gpus_per_worker: the number of devices of values; 0 if unknown.
        all_reduce_merge_scope: the number of consecutive tensors under one name scope, ``allreduce``.
        collective_keys: allocates the integers by which the operations find each other; by default the process's own.
            Two in one session must not allocate the same ones.

    Raises:
        ConfigError: A number is out of range.

    Source:
        The seed's ``cross_tower_ops``, which refuses ``IndexedSlices``.
    """

    def __init__(
        self,
        num_workers: int = 1,
        num_gpus_per_worker: int = 0,
        all_reduce_merge_scope: int = 32,
        collective_keys: CollectiveKeys | None = None,
    ) -> None:
        if num_workers != 1:
            raise ConfigError(mismatch(self, "num_workers", num_workers, "1, one process"))
        check_count(self, "num_gpus_per_worker", num_gpus_per_worker, minimum=0)
        check_count(self, "all_reduce_merge_scope", all_reduce_merge_scope)
        super().__init__(CollectiveReducer(keys=PROCESS_KEYS if collective_keys is None else collective_keys))
        self._num_gpus = num_gpus_per_worker
        self._merge_scope = all_reduce_merge_scope

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        if self._num_gpus not in (0, len(devices)):
            raise ConfigError(
                f"CollectiveAllReduce got values of {', '.join(devices)}: expected those of {self._num_gpus} device(s)"
            )
        return self._reducer

    def _reduce_towers(
        self, reducer: Reducer, towers: Sequence[Sequence[TensorOrSlices]], op: ReduceOp
    ) -> Sequence[Sequence[TensorOrSlices]]:
        # The last ones first, since collective operations are launched in order from the last tensor.
        starts = range(0, len(towers[0]), self._merge_scope)
        reduced: list[list[TensorOrSlices]] = [[] for _ in towers]
        for start in reversed(starts):
            chunk = [tower[start : start + self._merge_scope] for tower in towers]
            with tf.name_scope("allreduce"):
                results = reducer.reduce(chunk, op)
            reduced = [[*result, *later] for result, later in zip(results, reduced, strict=True)]
        return reduced


@check_arguments
class MultiWorkerAllReduce(ReducerCrossTowerOps):
    """Cross-tower operations over workers, with another algorithm for each range of sizes.

    The workers may have different numbers of towers; a mean counts each tower. The tensors of one range of sizes are
    packed together, as by `AllReduceCrossTowerOps`. Results are in the order of the values; shapes need to be known
    only with several ranges.

    Args:
        worker_devices: the devices of the workers, such as ``"/job:worker/task:1"``.
        num_gpus_per_worker: the number of towers of each worker, or a list of them; 0 for one, on its CPU.
        all_reduce_spec: see `parse_all_reduce_spec`.
        num_packs: as for `AllReduceCrossTowerOps`.
        agg_small_grads_max_bytes: as for `AllReduceCrossTowerOps`.
        agg_small_grads_max_group: as for `AllReduceCrossTowerOps`.

    Raises:
        ConfigError: There is no worker or one twice, a number is negative, there is not one for each worker, or the
            spec is malformed.

    Source:
        The seed's ``cross_tower_ops``.
    """

    def __init__(
        self,
        worker_devices: Sequence[str],
        num_gpus_per_worker: int | Sequence[int],
        all_reduce_spec: Any = DEFAULT_SPEC,
        num_packs: int = 0,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        wanted = "a list of the devices of different workers"
        names = check_instances(self, "worker_devices", worker_devices, str, least=1, expected=wanted)
        workers = [_task_of(device) for device in names]
        if len(set(workers)) < len(workers):
            raise ConfigError(mismatch(self, "worker_devices", names, wanted))
        each = num_gpus_per_worker
        numbers = [each] * len(workers) if isinstance(each, int) else list(each)
        if len(numbers) != len(workers):
            raise ConfigError(
                f"MultiWorkerAllReduce got num_gpus_per_worker={shown(numbers)}: expected a number for each of "
                f"{len(workers)} worker(s)"
            )
        for number in numbers:
            check_count(self, "num_gpus_per_worker", number, minimum=0)
        self._num_towers = {worker: max(number, 1) for worker, number in zip(workers, numbers, strict=True)}
        self._spec = parse_all_reduce_spec(all_reduce_spec)
        self._packing = _Packing(num_packs, agg_small_grads_max_bytes, agg_small_grads_max_group)

    @property
    def name(self) -> str:
        """The reducers, for logs."""
        return ":".join(entry.algorithm for entry in self._spec)

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        towers = Counter(map(_task_of, devices))
        if towers != self._num_towers:
            numbers = list(self._num_towers.values())
            each = numbers[0] if len(set(numbers)) == 1 else numbers
            raise ReductionError(
                f"MultiWorkerAllReduce got values of {', '.join(devices)}: expected those of {each} device(s) on each "
                f"of {len(numbers)} worker(s)"
            )
        reducers = [
            (self._packing.wrap(make_reducer(entry.algorithm, devices, entry.num_shards)), entry.byte_limit)
            for entry in self._spec
        ]
        return reducers[0][0] if len(reducers) == 1 else SplitBySizeReducer(reducers)


@check_arguments
def choose_the_best(devices: Sequence[str], session_config: tf.ConfigProto | None = None) -> ReducerCrossTowerOps:
    """Return the default cross-tower operations for some devices, and log the reason.

    They use the reducer of the same function of `tpack.reduction`, and on other devices the default for their kind.

    Args:
        devices: the devices of the strategy; GPUs become logical CPU devices on a machine without GPUs.
        session_config: the ``ConfigProto`` of the session that will run, or None.

    Raises:
        ReductionError: There is no device, or one twice.
        DeviceError: The machine has GPUs, but not one of these.

    Source:
        The seed's ``cross_tower_ops``, which takes NCCL unchecked.
    """
    choice = topology.choose_the_best(devices, session_config)
    logger.info(f"Values of {len(devices)} device(s) are reduced by {choice.reducer.name}: {choice.reason}.")
    return _ChosenOps(choice.reducer, devices)


class _ChosenOps(ReducerCrossTowerOps):
    """Operations by a reducer that was chosen for some devices, and may not support others."""

    def __init__(self, reducer: Reducer, devices: Sequence[str]) -> None:
        super().__init__(reducer)
        self._chosen_for = set(get_devices_from(list(devices)))

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        return self._reducer if set(devices) == self._chosen_for else choose_by_heuristic(devices).reducer


@dataclass(frozen=True)
class _Packing:
    """Packing of tensors before they are reduced, by the numbers of `AllReduceCrossTowerOps`."""

    num_packs: int
    small_max_bytes: int
    small_max_group: int

    def __post_init__(self) -> None:
        check_count("the packing", "num_packs", self.num_packs, minimum=0)
        check_count("the packing", "agg_small_grads_max_bytes", self.small_max_bytes, minimum=0)
        check_count("the packing", "agg_small_grads_max_group", self.small_max_group, minimum=0)

    def wrap(self, reducer: Reducer) -> Reducer:
        """Return a reducer that packs around another one, or that one itself."""
        if self.num_packs:
            return ConcatAndSplitPackingReducer(reducer, self.num_packs)
        if self.small_max_bytes and self.small_max_group:
            return AggregateSmallTensorPackingReducer(reducer, self.small_max_bytes, self.small_max_group)
        return reducer


def _task_of(device: str) -> tuple[str, int, int]:
    """Return the job, replica and task of a device; missing ones are those of the process."""
    spec = tf.DeviceSpec.from_string(canonical_device(device))
    return spec.job or "localhost", spec.replica or 0, spec.task or 0
