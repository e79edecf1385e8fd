"""What holds for every reducer that packs, shown with the three packers there are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import dense_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPackingReducer,
    BucketReducer,
    ConcatAndSplitPackingReducer,
)

WRAPPERS: dict[str, Callable[[Reducer], Reducer]] = {
    "concat_split": lambda inner: ConcatAndSplitPackingReducer(inner, 2),
    "small_tensors": lambda inner: AggregateSmallTensorPackingReducer(inner, 64, 3),
    "buckets": lambda inner: BucketReducer(inner, 64),
}
SHAPES = [(2, 3), (), (0,), (5,), (9, 9), (1, 0, 4), (3,)]
DTYPES = [np.float32, np.float64, np.float32, np.int32, np.float32, np.int32, np.float32]

each_wrapper = pytest.mark.parametrize("kind", WRAPPERS)


@each_wrapper
@pytest.mark.parametrize("hidden", [(), (0,), (0, 1)])
def test_lists_of_several_dtypes_and_sparse_ones_match_numpy(
    kind: str, hidden: tuple[int, ...], rng: Any, session8: Any
) -> None:
    values = [
        [rng.integers(-9, 9, shape).astype(dtype) for shape, dtype in zip(SHAPES, DTYPES, strict=True)]
        for _ in range(3)
    ]
    grads = [
        [
            source(value, f"/device:CPU:{k}", static_shape=[None] * value.ndim if k in hidden else value.shape)
            for value in tower
        ]
        for k, tower in enumerate(values)
    ]
    for k, tower in enumerate(grads):
        tower.insert(2, slices([[float(k)]], [k], f"/device:CPU:{k}"))
    reducer = WRAPPERS[kind](RoundRobinReducer())
    reduced = reducer.reduce(grads, ReduceOp.SUM)
    assert reducer.name == f"{kind}_round_robin"
    run(session8, reduced)
    got, placed = run_with_devices(session8, reduced)
    for k, tower in enumerate(got):
        sparse = tower.pop(2)
        assert sparse.indices.tolist() == [0, 1, 2]
        assert reduced[k].pop(2).device == f"/device:CPU:{k}"
        for n, total in enumerate(tower):
            assert np.array_equal(total, sum(own[n] for own in values)), n
            assert total.dtype == DTYPES[n]
            assert placed[reduced[k][n].op.name] == f"/device:CPU:{k}"


@each_wrapper
def test_results_are_on_the_device_of_each_gradient(kind: str, graph: Any) -> None:
    devices = [["/device:CPU:0", "/device:CPU:5"], ["/device:CPU:1", "/device:CPU:6"]]
    grads = [[source(1.0, device) for device in tower] for tower in devices]
    reduced = WRAPPERS[kind](RoundRobinReducer()).reduce(grads)
    assert [[grad.device for grad in tower] for tower in reduced] == devices


@each_wrapper
def test_the_mean_of_integers_is_refused(kind: str, graph: Any) -> None:
    grads = dense_towers([[np.float32(1), np.int32(1)]] * 2)
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match=r"gradient 1 .* the mean of integers is not an integer"):
        WRAPPERS[kind](RoundRobinReducer()).reduce(grads)
    assert len(graph.get_operations()) == num_ops


@each_wrapper
def test_limits_of_the_inner_reducer_hold_before_anything_is_packed(kind: str, graph: Any) -> None:
    grads = dense_towers([[np.ones(5, np.float32)]] * 3)
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        WRAPPERS[kind](HierarchicalReducer()).reduce(grads)
    assert len(graph.get_operations()) == num_ops


@each_wrapper
def test_only_sparse_gradients_and_none_at_all(kind: str, session8: Any) -> None:
    reducer = WRAPPERS[kind](RoundRobinReducer())
    assert reducer.reduce([[], []]) == [[], []]
    reduced = run(session8, reducer.reduce([[slices([[1.0]], [k], "")] for k in range(2)]))
    assert [tower[0].indices.tolist() for tower in reduced] == [[0, 1]] * 2


@each_wrapper
def test_one_tower_keeps_its_gradients(kind: str, graph: Any) -> None:
    grad = source(1.0, "")
    assert WRAPPERS[kind](HierarchicalReducer()).reduce([[grad]]) == [[grad]]


@each_wrapper
def test_packs_of_all_dtypes_are_launched_in_one_order(kind: str, session8: Any) -> None:
    values = [[np.float32(k), np.float64(k), np.int32(k), np.ones(99, np.float32)] for k in range(2)]
    reduced = WRAPPERS[kind](CollectiveReducer()).reduce(dense_towers(values), ReduceOp.SUM)
    launches = [op for op in session8.graph.get_operations() if op.type == "CollectiveReduce"]
    waits = [{other.name for other in op.control_inputs} for op in launches]
    assert [len(names) for names in waits[:2]] == [0, 0]
    assert all(len(names) == 1 for names in waits[2:])
    assert [value.tolist() for value in run(session8, reduced)[1][:3]] == [1.0, 1.0, 1]


@each_wrapper
def test_packing_wraps_packing(kind: str, session8: Any) -> None:
    reducer = WRAPPERS[kind](WRAPPERS["buckets"](WRAPPERS["concat_split"](RoundRobinReducer())))
    values = [[np.full(shape, k + n, np.float32) for n, shape in enumerate([(7,), (40,), ()])] for k in range(2)]
    reduced = run(session8, reducer.reduce(dense_towers(values)))
    assert reducer.name == f"{kind}_buckets_concat_split_round_robin"
    assert [[np.unique(value).tolist() for value in tower] for tower in reduced] == [[[0.5], [1.5], [2.5]]] * 2


@each_wrapper
def test_a_reducer_serves_several_graphs(kind: str) -> None:
    reducer = WRAPPERS[kind](RoundRobinReducer())
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            reduced = reducer.reduce(dense_towers([[np.float32(1), np.float32(2)]] * 2))
            assert reduced[0][0].graph is graph
