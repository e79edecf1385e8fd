from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.wrappers import gradient_packer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer

SHAPES = [(40, 60), (), (700,)]


def _sums(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type == "AddN"]


def test_the_inner_reducer_sees_packs(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 3, SHAPES)
    reducer = GradientPackingReducer(RoundRobinReducer(), 2)
    reduced = reducer.reduce(dense_towers(values))
    assert reducer.name == "packed_round_robin"
    assert sorted(op.outputs[0].shape.as_list() for op in _sums(session8.graph)) == [[1550], [1551]]
    for tower in run(session8, reduced):
        for n, got in enumerate(tower):
            np.testing.assert_allclose(got, np.mean([v[n] for v in values], axis=0), rtol=1e-5, atol=1e-6)


def test_sparse_gradients_are_not_packed(rng: Any, session8: Any) -> None:
    grads = dense_towers(random_towers(rng, 2, SHAPES))
    for tower in grads:
        tower.insert(1, slices([[1.0]], [4], ""))
    values = run(session8, GradientPackingReducer(RoundRobinReducer(), 1).reduce(grads))
    assert values[1][1].indices.tolist() == [4, 4]
    assert len(_sums(session8.graph)) == 1


def test_a_shape_that_one_tower_does_not_know_is_packed_all_the_same(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 2, [(3000,)])
    grads = [[source(values[0][0], "/cpu:0")], [source(values[1][0], "/cpu:1", static_shape=[None])]]
    reduced = GradientPackingReducer(RoundRobinReducer(), 2).reduce(grads)
    np.testing.assert_allclose(run(session8, reduced)[1][0], (values[0][0] + values[1][0]) / 2, rtol=1e-6)
    assert len(_sums(session8.graph)) == 2


def test_results_are_on_the_device_of_each_gradient(rng: Any, graph: Any) -> None:
    values = random_towers(rng, 2, [(3000,), (3,)])
    devices = [["/device:CPU:0", "/device:CPU:5"], ["/device:CPU:1", "/device:CPU:1"]]
    grads = [[source(v, d) for v, d in zip(*pair, strict=True)] for pair in zip(values, devices, strict=True)]
    reduced = GradientPackingReducer(RoundRobinReducer(), 1).reduce(grads)
    assert [[grad.device for grad in tower] for tower in reduced] == devices


def test_what_cannot_be_packed_is_reduced_as_it_is(monkeypatch: pytest.MonkeyPatch, session8: Any) -> None:
    lines: list[str] = []
    monkeypatch.setattr(gradient_packer.logger, "info", lines.append)
    reduced = GradientPackingReducer(RoundRobinReducer(), 2).reduce(dense_towers([[np.float32(1)], [np.float32(4)]]))
    assert run(session8, reduced) == [[2.5], [2.5]]
    assert len(lines) == 1
    assert "without packing: 1 elements are too few" in lines[0]


def test_limits_of_the_inner_reducer_hold_before_anything_is_packed(graph: Any) -> None:
    grads = dense_towers([[np.ones(5000, np.float32)]] * 3, cpu_devices(3))
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        GradientPackingReducer(HierarchicalReducer()).reduce(grads)
    assert len(graph.get_operations()) == num_ops


def test_the_number_of_packs_is_checked() -> None:
    with pytest.raises(ConfigError, match="^GradientPackingReducer got num_packs="):
        GradientPackingReducer(RoundRobinReducer(), -1)


def test_packing_wraps_packing(session8: Any) -> None:
    reducer = GradientPackingReducer(GradientPackingReducer(RoundRobinReducer(), 1), 3)
    reduced = reducer.reduce(dense_towers([[np.full(6000, float(k))] for k in range(2)]))
    assert reducer.name == "packed_packed_round_robin"
    assert np.array_equal(run(session8, reduced), np.full((2, 1, 6000), 0.5))
