"""Names of algorithms and packing; what they compute is in test_cross_tower_ops.py."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.device_values import SUM, per_device
from tests.helpers.strategies import started, values
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.reducer_ops import AllReduceCrossTowerOps
from tpack.errors import ConfigError, ReductionError

DEVICES = cpu_devices(4)


@pytest.mark.parametrize(
    ("ops", "name"),
    [
        (AllReduceCrossTowerOps(), "concat_split_nccl"),
        (AllReduceCrossTowerOps("nccl", num_packs=0), "nccl"),
        (AllReduceCrossTowerOps("hierarchical_copy", 8), "concat_split_hierarchical"),
        (AllReduceCrossTowerOps("hierarchical_copy", 0, 64, 2), "small_tensors_hierarchical"),
        (AllReduceCrossTowerOps("round_robin/xring", 0), "round_robin/xring"),
    ],
)
def test_names_and_numbers_make_the_reducer(ops: AllReduceCrossTowerOps, name: str) -> None:
    reducer = ops._reducer_for(DEVICES)
    assert reducer.name == name
    assert reducer.name.endswith(ops.name)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((2, 0, 10), "concat_split_round_robin"),
        ((2, 64, 10), "concat_split_round_robin"),
        ((0, 64, 10), "small_tensors_round_robin"),
        ((0, 64, 0), "round_robin"),
        ((0, 0, 10), "round_robin"),
    ],
)
def test_the_first_packing_that_is_asked_for_is_taken(numbers: tuple[int, int, int], name: str) -> None:
    assert AllReduceCrossTowerOps("round_robin", *numbers)._reducer_for(DEVICES).name == name


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_negative_numbers_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="expected an integer of at least 0"):
        AllReduceCrossTowerOps("round_robin", *numbers)


def test_gradients_are_packed_into_so_many_tensors(graph: Any) -> None:
    values = [per_device(np.ones((4, n + 1), np.float32)) for n in range(6)]
    AllReduceCrossTowerOps("one_device", num_packs=2).batch_reduce(SUM, [(v, v) for v in values])
    assert sum(op.type == "AddN" for op in graph.get_operations()) == 2


def test_an_algorithm_that_cannot_serve_the_devices_is_an_error(graph: Any) -> None:
    value = per_device(np.float32([1, 2]))
    with pytest.raises(ReductionError, match="NcclReducer got .*: expected a GPU of its own"):
        AllReduceCrossTowerOps().reduce(SUM, value, value)
    value = per_device(np.float32([1, 2, 3]))
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        AllReduceCrossTowerOps("hierarchical_copy").reduce(SUM, value, value)


def test_hierarchical_copy_serves_two_devices(session8: Any) -> None:
    value = per_device(np.float32([1, 2]))
    reduced = AllReduceCrossTowerOps("hierarchical_copy").reduce(SUM, value, value)
    assert values(started(session8), reduced) == [3, 3]


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError, match="got algorithm='quick': expected one of "):
        AllReduceCrossTowerOps("quick")
    with pytest.raises(ConfigError, match="got num_packs=-1: expected an integer of at least 0"):
        AllReduceCrossTowerOps(num_packs=-1)
