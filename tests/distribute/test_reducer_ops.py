"""Which values are given to the reducer together, and which are reduced alone."""

from typing import Any

import numpy as np

from tests.helpers.device_values import SUM, assert_mirrored, per_device, per_device_slices, start
from tests.helpers.tower_grads import cpu_devices, source
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.distribute.values import PerDevice
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer


class _Counting(RoundRobinReducer):
    """Notes how many tensors of how many towers each call reduces."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, int]] = []

    def reduce(self, tower_grads: Any, op: Any = None) -> Any:
        self.calls.append((len(tower_grads), len(tower_grads[0])))
        return super().reduce(tower_grads, op)


def test_values_that_stay_on_their_devices_are_one_batch(session8: Any) -> None:
    reducer = _Counting()
    ones = [per_device(np.ones((3, 2), np.float32)) for _ in range(4)]
    two = per_device(np.ones((2, 2), np.float32))
    destinations = [ones[0], "/cpu:0", cpu_devices(3)[::-1], ones[3], two, per_device_slices(3)]
    values = [*ones, two, per_device_slices(3)]
    ReducerCrossTowerOps(reducer).batch_reduce(SUM, list(zip(values, destinations, strict=True)))
    assert sorted(reducer.calls) == [(2, 1), (3, 4)]


def test_a_tensor_that_is_not_on_its_device_ends_there(session8: Any) -> None:
    """As the gradient of a variable that another device holds."""
    value = PerDevice({device: source(np.float32(k), "/device:CPU:5") for k, device in enumerate(cpu_devices(3))})
    reduced = ReducerCrossTowerOps(CollectiveReducer()).reduce(SUM, value, value)
    start(session8)
    assert_mirrored(session8, reduced, 3, cpu_devices(3))


def test_batches_of_one_list_are_launched_in_one_order(graph: Any) -> None:
    pairs = []
    for num_devices in (2, 3):
        value = per_device(np.ones((num_devices, 2), np.float32))
        pairs.append((value, value))
    ReducerCrossTowerOps(CollectiveReducer()).batch_reduce(SUM, pairs)
    first, second = _launches(graph, 2), _launches(graph, 3)
    barriers = [op for op in graph.get_operations() if op.name.endswith("barrier")]
    assert all(barriers[0] in op.control_inputs for op in second) or all(
        barriers[1] in op.control_inputs for op in first
    )


def _launches(graph: Any, num_devices: int) -> list[Any]:
    collectives = [op for op in graph.get_operations() if op.type == "CollectiveReduce"]
    found = [op for op in collectives if op.get_attr("group_size") == num_devices]
    assert len(found) == num_devices
    return found


def test_the_name_is_the_reducers() -> None:
    assert ReducerCrossTowerOps(RoundRobinReducer()).name == "round_robin"
