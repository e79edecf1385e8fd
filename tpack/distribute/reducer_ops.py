"""Cross-tower operations on any `Reducer`: where all values end on the devices they come from, they are one batch."""

from collections.abc import Sequence
from typing import Any

from tpack.distribute.aggregation import reduce_op_of
from tpack.distribute.contributions import Contributions, gather_contributions
from tpack.distribute.cross_tower_ops import CrossTowerOps
from tpack.distribute.destinations import get_devices_from
from tpack.distribute.one_device_ops import reduce_on_device
from tpack.distribute.values import DistributedValues, Mirrored
from tpack.reduction.algorithms.launch_order import one_launch_order
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import ReduceOp


class ReducerCrossTowerOps(CrossTowerOps):
    """Reduce with a `Reducer` what ends on the devices that it comes from.

    Values of the same devices are given to the reducer together, dense ones and ``IndexedSlices``, whatever the
    destinations of others in the list are. A value whose result goes to other devices is reduced on the first of them
    and copied, since an all-reduce would bring it to devices that do not want it; so is one that has several parts on a
    device (`MapOutput`).

    Args:
        reducer: the algorithm.

    Source:
        Written for tpack; ``AllReduceCrossTowerOps`` of the seed reduces all values one by one as soon as the
        destinations of two differ, or one is sparse.
    """

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    @property
    def name(self) -> str:
        """What reduces, for logs."""
        return self._reducer.name

    def _reducer_for(self, devices: Sequence[str]) -> Reducer:
        """Return the reducer of values on these devices; a subclass whose reducer depends on them overrides it."""
        del devices
        return self._reducer

    def _reduce(self, aggregation: Any, per_device_value: DistributedValues, destinations: Any) -> Mirrored:
        return self._batch_reduce(aggregation, [(per_device_value, destinations)])[0]

    def _batch_reduce(
        self, aggregation: Any, value_destination_pairs: Sequence[tuple[DistributedValues, Any]]
    ) -> list[Mirrored]:
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

    def _all_reduce(self, values: Sequence[Contributions], op: ReduceOp) -> list[dict[str, Any]]:
        """Reduce one or more values of the same devices and return the results by device."""
        devices = list(values[0].by_device)
        towers = [[value.by_device[device] for value in values] for device in devices]
        reduced = self._reduce_towers(self._reducer_for(devices), towers, op)
        return [dict(zip(devices, column, strict=True)) for column in zip(*reduced, strict=True)]

    def _reduce_towers(
        self, reducer: Reducer, towers: Sequence[Sequence[Any]], op: ReduceOp
    ) -> Sequence[Sequence[Any]]:
        """Reduce K lists of N tensors, those of list k on device k."""
        return reducer.reduce(towers, op)
