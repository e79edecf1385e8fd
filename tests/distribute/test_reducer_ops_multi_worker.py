"""Specs and workers; sums over two processes are in tests/multiprocess/test_composite_reduction.py."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.device_values import SUM, per_device
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.reducer_ops import MultiWorkerAllReduce
from tpack.errors import ConfigError, ReductionError

WORKERS = ["/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"]
DEVICES = [f"/job:worker/task:{task}/device:CPU:{i}" for task in range(2) for i in range(2)]


@pytest.mark.parametrize(
    ("spec", "packing", "reducer_name"),
    [
        (("pscpu/pscpu", 2, -1), {}, "pscpu/pscpu"),
        ("round_robin/xring", {"num_packs": 3}, "concat_split_round_robin/xring"),
        (("xring",), {"agg_small_grads_max_bytes": 8}, "small_tensors_xring"),
        ([("one_device", 1, 64), ("pscpu/pscpu", 2, -1)], {}, "by_size"),
    ],
)
def test_a_spec_makes_the_reducer(spec: Any, packing: dict[str, int], reducer_name: str) -> None:
    ops = MultiWorkerAllReduce(WORKERS, 2, spec, **packing)
    assert ops._reducer_for(DEVICES).name == reducer_name


def test_workers_without_gpus_have_one_tower_each() -> None:
    ops = MultiWorkerAllReduce(WORKERS, 0, "xring")
    assert ops._reducer_for(DEVICES[::2]).name == "xring"


@pytest.mark.parametrize("spec", ["xring", "round_robin/xring", [("one_device", 1, 16), ("pscpu/pscpu", 2, -1)]])
def test_workers_may_have_different_numbers_of_devices(spec: Any, graph: Any) -> None:
    ops = MultiWorkerAllReduce(WORKERS, [2, 0], spec)
    assert ops._reducer_for(DEVICES[:3])
    with pytest.raises(
        ReductionError, match=r"got values of .*: expected those of \[2, 1\] device.s. on each of 2 worker.s."
    ):
        ops._reducer_for([DEVICES[0], *DEVICES[2:]])


def test_each_range_of_sizes_is_packed_apart(graph: Any) -> None:
    ops = MultiWorkerAllReduce(["/job:localhost"], 2, [("one_device", 1, 16), ("round_robin", 1, -1)], num_packs=1)
    values = [per_device(np.ones((2, n), np.float32)) for n in (3, 30, 4, 40)]
    ops.batch_reduce(SUM, [(v, v) for v in values])
    sums = [op for op in graph.get_operations() if op.type == "AddN"]
    assert sorted(op.outputs[0].shape.num_elements() for op in sums) == [7, 70]
    assert ops.name == "one_device:round_robin"


@pytest.mark.parametrize(
    ("workers", "num_gpus", "devices"),
    [
        (WORKERS, 1, DEVICES),
        (WORKERS, 0, DEVICES),
        (WORKERS[:1], 2, DEVICES),
        (WORKERS, 2, DEVICES[:3]),
        (WORKERS, 2, cpu_devices(4)),
    ],
)
def test_values_of_other_devices_are_refused(workers: list[str], num_gpus: int, devices: list[str], graph: Any) -> None:
    value = per_device(np.ones(len(devices), np.float32), devices)
    with pytest.raises(ReductionError, match=r"got values of .*: expected .* \d device.s. on each of \d worker.s."):
        MultiWorkerAllReduce(workers, num_gpus).reduce(SUM, value, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1), "worker_devices|expected a list of the devices of different workers"),
        (("/job:worker", 1), "got worker_devices='/job:worker': expected a list of text"),
        (([*WORKERS, "/job:worker/task:1"], 1), "expected a list of the devices of different workers"),
        ((WORKERS, -1), "got num_gpus_per_worker=-1"),
        ((WORKERS, [1, -2]), "got num_gpus_per_worker=-2"),
        ((WORKERS, [1]), "got num_gpus_per_worker=.*expected a number for each of 2 worker"),
        ((WORKERS, 1, "quick"), "entry 0 .*got algorithm='quick'"),
        ((WORKERS, 1, ("xring",), -2), "^the packing got num_packs="),
    ],
)
def test_arguments_are_checked(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MultiWorkerAllReduce(*arguments)
