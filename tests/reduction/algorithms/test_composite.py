from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer, HierarchicalReducer, group_by_worker, worker_of
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.sums import copy_to_each, sum_tensors

PAIRS = [[0, 1], [2, 3]]
EVERY_SECOND = [[0, 2, 4, 6], [1, 3, 5, 7]]


class _Recorder(Reducer):
    """Sums on the first tower, and notes for each call the operation and each column's device numbers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[tuple[ReduceOp, list[str]]] = []

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        self.calls.append((op, ["".join(tensor.device[-1:] for tensor in column) for column in columns]))
        return [copy_to_each(sum_tensors(column), column) for column in columns]


def _worker_devices(num_workers: int, num_each: int) -> list[str]:
    return [f"/job:worker/task:{w}/device:CPU:{i}" for w in range(num_workers) for i in range(num_each)]


@pytest.mark.parametrize(
    ("inner", "outer", "groups"),
    [
        (RoundRobinReducer, RingReducer, [[0, 1], [2, 3], [4, 5]]),
        (RoundRobinReducer, HalvingDoublingReducer, [[0, 4], [1, 5], [6, 2], [7, 3]]),
        (OneDeviceReducer, ShuffleReducer, PAIRS),
        (ShuffleReducer, ShuffleReducer, EVERY_SECOND),
        (HierarchicalReducer, OneDeviceReducer, EVERY_SECOND),
        (RingReducer, RoundRobinReducer, [[2, 0, 4], [1, 3, 5]]),
        (CollectiveReducer, CollectiveReducer, PAIRS),
        (OneDeviceReducer, RingReducer, [[0], [1], [2]]),
        (RoundRobinReducer, RingReducer, [[2, 1, 0]]),
        (HierarchicalReducer, RingReducer, [[0, 1, 2, 3], [4], [5, 6]]),
        (ShuffleReducer, HalvingDoublingReducer, [[6], [0, 1, 2, 3, 4, 5]]),
        (CollectiveReducer, OneDeviceReducer, [[0, 1, 2], [3, 4]]),
    ],
)
@pytest.mark.parametrize("op", ReduceOp)
def test_two_levels_give_the_numpy_result(
    inner: Callable[[], Reducer], outer: Callable[[], Reducer], groups: Any, op: ReduceOp, rng: Any, session8: Any
) -> None:
    num_towers = sum(map(len, groups))
    values = random_towers(rng, num_towers, [(5, 3), (), (0,), (7,)])
    reduced = CompositeReducer(inner(), outer(), groups=groups).reduce(dense_towers(values), op)
    run(session8, reduced)
    got, placed = run_with_devices(session8, reduced)
    for k in range(num_towers):
        for n in range(4):
            wanted = sum(tower[n] for tower in values) / op.divisor(num_towers)
            np.testing.assert_allclose(got[k][n], wanted, rtol=1e-5, atol=1e-5)
            assert got[k][n].tobytes() == got[0][n].tobytes()
            assert placed[reduced[k][n].op.name] == f"/device:CPU:{k}"


def test_leaders_rotate_and_only_they_cross(graph: Any) -> None:
    inner, outer = _Recorder("inside"), _Recorder("across")
    reducer = CompositeReducer(inner, outer, groups=[[0, 2], [1, 3]])
    assert reducer.name == "inside/across"
    reducer.reduce(dense_towers([[np.float32(1)] * 3] * 4))
    assert inner.calls == [(ReduceOp.SUM, ["02"] * 3), (ReduceOp.SUM, ["13"] * 3)]
    assert outer.calls == [(ReduceOp.SUM, ["01", "23", "01"])]


def test_workers_are_read_from_the_device_names(graph: Any) -> None:
    reducer = CompositeReducer(RoundRobinReducer(), OneDeviceReducer())
    devices = _worker_devices(2, 2)
    reduced = reducer.reduce(dense_towers([[np.ones(3, np.float32)] * 2] * 4, devices))
    assert [[grad.device for grad in tower] for tower in reduced] == [[device] * 2 for device in devices]
    crossings = [
        (op.type, tensor.op.type)
        for op in graph.get_operations()
        for tensor in op.inputs
        if op.device.split("/")[2] != tensor.device.split("/")[2]
    ]
    # Each of the two gradients crosses once to the first worker's leader and once back, whatever the number of towers.
    assert crossings == [("AddN", "Identity"), ("Identity", "AddN")] * 2
    divisions = [op for op in graph.get_operations() if op.type == "RealDiv"]
    assert len(divisions) == 4
    assert {op.inputs[1].op.get_attr("value").float_val[0] for op in divisions} == {4.0}


@pytest.mark.parametrize("devices", [cpu_devices(3), ["", "", ""], _worker_devices(1, 3)])
def test_one_worker_needs_only_the_inner_algorithm(devices: list[str], graph: Any) -> None:
    inner, outer = _Recorder("inside"), _Recorder("across")
    grads = [[*tower, slices([[1.0]], [0], tower[0].device)] for tower in dense_towers([[1.0]] * 3, devices)]
    CompositeReducer(inner, outer, groups=None).reduce(grads)
    assert [op for op, _ in inner.calls] == [ReduceOp.MEAN]
    assert outer.calls == []


def test_one_tower_on_each_worker_needs_only_the_outer_algorithm(graph: Any) -> None:
    inner, outer = _Recorder("inside"), _Recorder("across")
    # The inner algorithm alone would refuse one tower.
    CompositeReducer(HierarchicalReducer(), outer).reduce(dense_towers([[1.0]] * 3, _worker_devices(3, 1)))
    assert inner.calls == []
    assert len(outer.calls) == 1


@pytest.mark.parametrize("op", ReduceOp)
def test_sparse_gradients_take_the_same_way(op: ReduceOp, session8: Any) -> None:
    grads = [
        [slices(np.full((k, 1), k), [k] * k, f"/device:CPU:{k}", rows=9 if k == 2 else None) for _ in range(2)]
        for k in range(4)
    ]
    reduced = CompositeReducer(RoundRobinReducer(), RingReducer(), groups=[[0, 2], [1, 3]]).reduce(grads, op)
    got = run(session8, reduced)
    for k in range(4):
        for n in range(2):
            assert got[k][n].indices.tolist() == [2, 2, 1, 3, 3, 3]
            assert got[k][n].values.ravel().tolist() == [i / op.divisor(4) for i in (2, 2, 1, 3, 3, 3)]
            assert got[k][n].dense_shape.tolist() == [9, 1]
            assert reduced[k][n].values.device == f"/device:CPU:{k}"


def test_rows_cross_between_workers_once_each_way(graph: Any) -> None:
    grads = [[slices([[1.0]], [0], device)] for device in _worker_devices(2, 4)]
    CompositeReducer(OneDeviceReducer(), OneDeviceReducer()).reduce(grads)
    crossings = [
        tensor
        for op in graph.get_operations()
        for tensor in op.inputs
        if "task" in op.device and op.device.split("/")[2] != tensor.device.split("/")[2]
    ]
    # Values and indices, there and back.
    assert len(crossings) == 4


def test_sparse_gradients_may_lie_on_different_numbers_of_towers(graph: Any) -> None:
    grads = [[slices([[1.0]], [0], device)] for device in _worker_devices(2, 2)[:3]]
    reduced = CompositeReducer(RoundRobinReducer(), RingReducer()).reduce(grads)
    assert [tower[0].values.device for tower in reduced] == _worker_devices(2, 2)[:3]


def _refused(graph: Any, reducer: Reducer, grads: Any, match: str) -> None:
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match=match):
        reducer.reduce(grads)
    assert len(graph.get_operations()) == num_ops


def test_a_tower_on_two_workers_is_refused(graph: Any) -> None:
    devices = _worker_devices(2, 1)
    grads = [[dense_towers([[1.0]], [device])[0][0] for device in pair] for pair in (devices, devices[::-1])]
    reducer = CompositeReducer(RoundRobinReducer(), RingReducer())
    _refused(graph, reducer, grads, "tower 0 has gradients on different workers, .*task:0.*task:1")


@pytest.mark.parametrize("sparse", [False, True])
def test_another_number_of_towers_than_in_the_groups_is_refused(sparse: bool, graph: Any) -> None:
    reducer = CompositeReducer(RoundRobinReducer(), RingReducer(), groups=PAIRS)
    grads = [[slices([[1.0]], [0], "")] for _ in range(3)] if sparse else dense_towers([[1.0]] * 3)
    _refused(graph, reducer, grads, "got the gradients of 3 towers: expected 4, as in its groups")


def test_the_limits_of_both_algorithms_hold(graph: Any) -> None:
    grads = dense_towers([[1.0]] * 6)
    inner = CompositeReducer(HierarchicalReducer(), OneDeviceReducer(), groups=[[0, 1, 2], [3, 4, 5]])
    _refused(graph, inner, grads, "got 3 towers: expected an even number")
    outer = CompositeReducer(OneDeviceReducer(), HalvingDoublingReducer(), groups=[[0, 1], [2, 3], [4, 5]])
    _refused(graph, outer, grads, "power of two")


@pytest.mark.parametrize("groups", [[], [[]], [[0, 1], []], [[0, 1], [1, 2]], [[1, 2], [3, 4]]])
def test_groups_that_do_not_hold_each_tower_once_are_refused(groups: Any) -> None:
    with pytest.raises(ConfigError, match="CompositeReducer got groups=.*: expected each tower from 0 up once"):
        CompositeReducer(RoundRobinReducer(), RingReducer(), groups=groups)


@pytest.mark.parametrize(
    ("device", "worker"),
    [
        ("/job:worker/task:1/device:GPU:3", ("worker", None, 1)),
        ("/job:worker/replica:0/task:1/device:CPU:0", ("worker", 0, 1)),
        ("/device:CPU:0", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_worker_of_is_what_stands_before_the_device(device: str, worker: tuple[object, ...]) -> None:
    assert worker_of(device) == worker


def test_devices_are_grouped_in_the_order_of_the_list() -> None:
    devices = [f"/job:worker/task:{task}/device:CPU:{index}" for index in range(2) for task in (1, 0)]
    assert group_by_worker(devices) == [[0, 2], [1, 3]]
    assert group_by_worker([*devices, "/device:CPU:0"]) == [[0, 2], [1, 3], [4]]
    assert group_by_worker([]) == []
